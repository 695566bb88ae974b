import java.net.*;import java.util.*;
public class G{public static void main(String[] a)throws Exception{DatagramSocket s=new DatagramSocket(new InetSocketAddress("127.0.0.1",Integer.parseInt(a[0])));List<Object> keep=new ArrayList<>();for(int i=0;i<3000000;i++)keep.add(new long[4]);
Thread t=new Thread(()->{try{for(;;){System.in.read();long n=System.nanoTime();System.gc();System.err.printf("gc %.1f ms%n",(System.nanoTime()-n)/1e6);}}catch(Exception e){}});t.setDaemon(true);t.start();
byte[] b=new byte[2048];DatagramPacket p=new DatagramPacket(b,2048);for(;;){s.receive(p);}}}
