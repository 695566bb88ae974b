// SPDX-License-Identifier: GPL-2.0
/*
 * Stamps each packet at netif_receive_skb and hands the stamps to one reader, as records of 40 bytes.
 *
 *   /dev/quaver_stamp        raw cycles; whoever reads converts them
 *   /dev/quaver_stamp_clock  CLOCK_REALTIME nanoseconds, converted here: the baseline to compare with
 *   /dev/quaver_stamp_none   0: what the checkpoints around a stamp take by themselves
 *
 * The hook is in place while a device is open, for packets of the network namespace that opened it. Interrupts are off around
 * the stamp. A read returns whole records and never waits: 0 bytes mean that there are none now.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>
#include <asm/msr.h>

#define LEAST_RECORDS 64U
#define MOST_RECORDS (1U << 20)

static unsigned int records = 1 << 14;
module_param(records, uint, 0444);
MODULE_PARM_DESC(records, "Records that a CPU has room for, a power of two (64 to 1048576)");

/* One packet. Of losses: `kernel_ns` and `length` are 0, and `stamp` counts the packets for which there was no room. */
struct stamp_record {
	u64 stamp;
	u64 kernel_ns;      /* skb->tstamp: the key by which a capture finds its packet */
	u64 before_cycles;  /* of the checkpoint before the stamp */
	u32 length;         /* with the link header */
	u32 interface;
	u32 between_cycles; /* from one checkpoint before the stamp to one behind it */
	u32 cpu;
};
static_assert(sizeof(struct stamp_record) == 40);

/* Written by its CPU alone with interrupts off, read by the one reader. */
struct stamp_ring {
	struct stamp_record *slots;
	u32 head; /* next to write */
	u32 tail; /* next to read */
	u64 lost;
	u64 lost_told; /* the reader's */
};

/* How packets are stamped while its device is open. */
struct stamp_way {
	struct miscdevice device;
	void (*at_receive)(void *unused, struct sk_buff *skb);
};

static DEFINE_PER_CPU(struct stamp_ring, rings);
static DEFINE_MUTEX(reading);
static struct stamp_way *open_way; /* none while no device is open */
static struct net *name_space;
static struct tracepoint *receive;

static void write_record(const struct sk_buff *skb, u64 before, u64 stamp, u64 after)
{
	struct stamp_ring *ring = this_cpu_ptr(&rings);
	u32 head = ring->head;
	struct stamp_record *record = &ring->slots[head & (records - 1)];

	/* Pairs with the release in copy_ring: the reader is done with a slot before it is written anew. */
	if (head - smp_load_acquire(&ring->tail) == records) {
		WRITE_ONCE(ring->lost, ring->lost + 1);
		return;
	}
	record->stamp = stamp;
	record->kernel_ns = ktime_to_ns(skb->tstamp);
	record->before_cycles = before;
	record->length = skb->len;
	/* The data begin behind the link header by now. */
	if (skb_mac_header_was_set(skb))
		record->length += skb->data - skb_mac_header(skb);
	record->interface = skb->dev->ifindex;
	record->between_cycles = min_t(u64, after - before, U32_MAX);
	record->cpu = smp_processor_id();
	/* Pairs with the acquire in copy_ring: a record is whole before it is seen. */
	smp_store_release(&ring->head, head + 1);
}

/* Compiled once for each way, so that nothing but the stamp lies between the checkpoints. */
static __always_inline void stamp_packet(const struct sk_buff *skb, u64 (*stamp_now)(void))
{
	unsigned long flags;
	u64 before, stamp;

	if (dev_net(skb->dev) != name_space)
		return;
	local_irq_save(flags);
	before = rdtsc_ordered();
	stamp = stamp_now();
	write_record(skb, before, stamp, rdtsc_ordered());
	local_irq_restore(flags);
}

static __always_inline u64 no_stamp(void)
{
	return 0;
}

static __always_inline u64 raw_stamp(void)
{
	return rdtsc();
}

static void receive_none(void *unused, struct sk_buff *skb)
{
	stamp_packet(skb, no_stamp);
}

static void receive_raw(void *unused, struct sk_buff *skb)
{
	stamp_packet(skb, raw_stamp);
}

static void receive_clock(void *unused, struct sk_buff *skb)
{
	stamp_packet(skb, ktime_get_real_ns);
}

static void free_rings(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct stamp_ring *ring = per_cpu_ptr(&rings, cpu);

		vfree(ring->slots);
		memset(ring, 0, sizeof(*ring));
	}
}

/* Of every CPU that there can be: one that comes online meanwhile has its ring already. */
static int make_rings(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct stamp_ring *ring = per_cpu_ptr(&rings, cpu);

		ring->slots = vmalloc_array(records, sizeof(*ring->slots));
		if (!ring->slots) {
			free_rings();
			return -ENOMEM;
		}
	}
	return 0;
}

static int begin(struct stamp_way *way)
{
	int error;

	if (open_way)
		return -EBUSY;
	error = make_rings();
	if (error)
		return error;
	name_space = get_net(current->nsproxy->net_ns);
	error = tracepoint_probe_register(receive, way->at_receive, NULL);
	if (error) {
		put_net(name_space);
		free_rings();
		return error;
	}
	open_way = way;
	return 0;
}

static int open_device(struct inode *inode, struct file *file)
{
	struct stamp_way *way = container_of(file->private_data, struct stamp_way, device);
	int error;

	if (!ns_capable(current->nsproxy->net_ns->user_ns, CAP_NET_RAW))
		return -EPERM;
	mutex_lock(&reading);
	error = begin(way);
	mutex_unlock(&reading);
	return error;
}

static int release_device(struct inode *inode, struct file *file)
{
	mutex_lock(&reading);
	tracepoint_probe_unregister(receive, open_way->at_receive, NULL);
	/* No CPU is in the hook any more. */
	tracepoint_synchronize_unregister();
	put_net(name_space);
	free_rings();
	open_way = NULL;
	mutex_unlock(&reading);
	return 0;
}

/* Copies what one ring has, its losses first. Bytes copied, or an error. */
static ssize_t copy_ring(struct stamp_ring *ring, u32 cpu, char __user *to, size_t most)
{
	size_t room = most / sizeof(struct stamp_record), done = 0;
	u32 tail = ring->tail, head = smp_load_acquire(&ring->head);
	u64 lost = READ_ONCE(ring->lost) - ring->lost_told;

	if (lost && room) {
		struct stamp_record told = { .stamp = lost, .cpu = cpu };

		if (copy_to_user(to, &told, sizeof(told)))
			return -EFAULT;
		ring->lost_told += lost;
		done = 1;
	}
	while (tail != head && done < room) {
		u32 slot = tail & (records - 1);
		u32 count = min3(head - tail, records - slot, (u32)min_t(size_t, room - done, records));

		if (copy_to_user(to + done * sizeof(*ring->slots), &ring->slots[slot], count * sizeof(*ring->slots)))
			return -EFAULT;
		tail += count;
		done += count;
		smp_store_release(&ring->tail, tail);
	}
	return done * sizeof(struct stamp_record);
}

static ssize_t read_device(struct file *file, char __user *to, size_t most, loff_t *offset)
{
	ssize_t copied, all = 0;
	int cpu;

	if (most < sizeof(struct stamp_record))
		return -EINVAL;
	if (mutex_lock_interruptible(&reading))
		return -ERESTARTSYS;
	for_each_possible_cpu(cpu) {
		copied = copy_ring(per_cpu_ptr(&rings, cpu), cpu, to + all, most - all);
		if (copied < 0) {
			all = all ?: copied;
			break;
		}
		all += copied;
	}
	mutex_unlock(&reading);
	return all;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = open_device,
	.read = read_device,
	.release = release_device,
};

#define WAY(device_name, hook) { \
	.device = { .minor = MISC_DYNAMIC_MINOR, .name = device_name, .mode = 0600, .fops = &operations }, \
	.at_receive = hook, \
}
static struct stamp_way ways[] = {
	WAY("quaver_stamp", receive_raw),
	WAY("quaver_stamp_clock", receive_clock),
	WAY("quaver_stamp_none", receive_none),
};

/* The kernel exports the list of its tracepoints, not this one. */
static void find_receive(struct tracepoint *one, void *unused)
{
	if (!strcmp(one->name, "netif_receive_skb"))
		receive = one;
}

static void remove_devices(int count)
{
	while (count--)
		misc_deregister(&ways[count].device);
}

static int __init start(void)
{
	int way, error;

	if (records < LEAST_RECORDS || records > MOST_RECORDS || !is_power_of_2(records))
		return -EINVAL;
	for_each_kernel_tracepoint(find_receive, NULL);
	if (!receive)
		return -ENOENT;
	for (way = 0; way < ARRAY_SIZE(ways); way++) {
		error = misc_register(&ways[way].device);
		if (error) {
			remove_devices(way);
			return error;
		}
	}
	return 0;
}

static void __exit end(void)
{
	remove_devices(ARRAY_SIZE(ways));
}

module_init(start);
module_exit(end);
MODULE_DESCRIPTION("Stamps of received packets in raw cycles, for quaver capture --stamp raw");
MODULE_VERSION("0.2.0");
MODULE_LICENSE("GPL");
