// send PORT PERIOD_US [IP] : RTP
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>
int main(int c,char**v){int s=socket(AF_INET,SOCK_DGRAM,0);struct sockaddr_in a={.sin_family=AF_INET,.sin_port=htons(atoi(v[1]))};inet_pton(AF_INET,c>3?v[3]:"127.0.0.1",&a.sin_addr);
long p=atol(v[2])*1000;struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);unsigned char b[200]={0};unsigned short n=0;unsigned ts=0;
for(;;){t.tv_nsec+=p;while(t.tv_nsec>=1000000000){t.tv_nsec-=1000000000;t.tv_sec++;}clock_nanosleep(CLOCK_MONOTONIC,TIMER_ABSTIME,&t,0);
b[0]=0x80;b[1]=96;b[2]=n>>8;b[3]=n;unsigned x=htonl(ts);memcpy(b+4,&x,4);b[8]=1;b[9]=2;b[10]=3;b[11]=4;n++;ts+=90*p/1000000;sendto(s,b,200,0,(void*)&a,sizeof a);}}
