import java.util.concurrent.*; import java.util.concurrent.locks.*;
public class J { static long w; static void ms(int n){ try{Thread.sleep(n);}catch(Exception e){} } static synchronized void add(long x){w+=x;}
 public static void main(String[] a) throws Exception { 
  switch(a[0]){ 
  case "sync": Object l=new Object(); Thread[] t=new Thread[3]; for(int i=0;i<3;i++){ t[i]=new Thread(()->{ for(int r=0;r<30;r++){ long f=System.nanoTime(); synchronized(l){ add(System.nanoTime()-f); ms(3);} ms(1);} }); t[i].start(); } for(Thread x:t)x.join(); break;
  case "fj": ForkJoinPool p=new ForkJoinPool(3); long f=System.nanoTime(); p.submit(()->java.util.stream.IntStream.range(0,30).parallel().forEach(i->ms(4))).get(); add(System.nanoTime()-f); break;
  case "exch": Exchanger<Integer> e=new Exchanger<>(); Thread q=new Thread(()->{ try{ for(int r=0;r<40;r++){ ms(5); e.exchange(r);} }catch(Exception x){} }); q.start(); for(int r=0;r<40;r++){ long g=System.nanoTime(); e.exchange(r); add(System.nanoTime()-g);} q.join(); break; }
  System.out.printf("own w %.3f%n",w/1e6); System.exit(9); } }
