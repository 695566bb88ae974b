import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Receives UDP on loopback and does one deed each 250 packets: {@code Receiver block PORT DEED FOLDER}. */
public final class Receiver {
    private static final int DEED_EACH_PACKETS = 250;
    private static final long DEED_NS = 3_000_000;
    private static final int WRITTEN_BYTES = 2 << 20;

    public static void main(String[] words) throws Exception {
        String deed = words[2];
        FileChannel file = null;
        if (deed.equals("disk")) {
            Path path = Path.of(words[3], "deed." + ProcessHandle.current().pid());
            file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                    StandardOpenOption.DELETE_ON_CLOSE);
        }
        DatagramSocket socket = new DatagramSocket(Integer.parseInt(words[1]), InetAddress.getLoopbackAddress());
        DatagramPacket packet = new DatagramPacket(new byte[65536], 65536);
        for (long received = 1;; received++) {
            packet.setLength(65536);
            socket.receive(packet);
            if (received % DEED_EACH_PACKETS == 0) {
                doDeed(deed, file);
            }
        }
    }

    private static void doDeed(String deed, FileChannel file) throws Exception {
        switch (deed) {
            case "sleep" -> Thread.sleep(DEED_NS / 1_000_000);
            case "compute" -> {
                long end = System.nanoTime() + DEED_NS;
                while (System.nanoTime() < end) {
                    Thread.onSpinWait();
                }
            }
            case "disk" -> {
                file.write(ByteBuffer.allocate(WRITTEN_BYTES), 0);
                file.force(true);
            }
            default -> { }
        }
    }
}
