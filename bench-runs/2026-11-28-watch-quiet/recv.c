// recv PORT LIMIT_MS: prints, of each packet, its own reading of time, where it waited in this host longer than the limit, or came later than
// the earliest packet lately says (period 1 ms, RTP numbers).
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>
static long long now(int c){struct timespec t;clock_gettime(c,&t);return t.tv_sec*1000000000LL+t.tv_nsec;}
int main(int c,char**v){setvbuf(stdout,0,_IOLBF,0);int s=socket(AF_INET,SOCK_DGRAM,0),one=1;struct sockaddr_in a={.sin_family=AF_INET,.sin_port=htons(atoi(v[1]))};a.sin_addr.s_addr=htonl(INADDR_LOOPBACK);
long long limit=atoll(v[2])*1000000LL;setsockopt(s,SOL_SOCKET,SO_TIMESTAMPNS,&one,4);if(bind(s,(void*)&a,sizeof a)){perror("bind");return 1;}
char b[2048],ctl[512];long long ext=-1,base=0,n=0,lost=0,maxh=0,maxl=0,nh=0,nl=0;unsigned short last=0;
for(;;){struct iovec i={b,sizeof b};struct msghdr m={.msg_iov=&i,.msg_iovlen=1,.msg_control=ctl,.msg_controllen=sizeof ctl};
 if(recvmsg(s,&m,0)<12)continue;long long r=now(CLOCK_REALTIME),k=r;
 for(struct cmsghdr*h=CMSG_FIRSTHDR(&m);h;h=CMSG_NXTHDR(&m,h))if(h->cmsg_type==SCM_TIMESTAMPNS){struct timespec t;memcpy(&t,CMSG_DATA(h),sizeof t);k=t.tv_sec*1000000000LL+t.tv_nsec;}
 unsigned short q=(unsigned char)b[2]<<8|(unsigned char)b[3];
 if(ext<0){ext=q;base=now(CLOCK_MONOTONIC)-ext*1000000LL;}else{unsigned short d=q-last;ext+=d;if(d!=1)lost+=d-1;}last=q;n++;
 long long slot=now(CLOCK_MONOTONIC)-ext*1000000LL;if(slot<base)base=slot;long long late=slot-base,held=r-k;
 if(held>maxh)maxh=held;if(late>maxl)maxl=late;
 if(held>limit||late>limit){nh+=held>limit;nl+=late>limit;printf("%lld.%06lld packet %lld held %.3f ms late %.3f ms\n",r/1000000000,r/1000%1000000,ext,held/1e6,late/1e6);}
 if(n%10000==0)printf("%lld.%06lld packets %lld lost %lld held max %.3f (%lld) late max %.3f (%lld)\n",r/1000000000,r/1000%1000000,n,lost,maxh/1e6,nh,maxl/1e6,nl);}}
