# Perl: ithreads with a shared variable, cond_wait, a queue and a semaphore.
use strict; use threads; use threads::shared; use Thread::Queue; use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);
my $items :shared = 0; my $n :shared = 0; my $ns :shared = 0; my $queue = Thread::Queue->new;
my @crowd = map { threads->create(sub { for (1 .. 15) { { lock($items); until ($items > 0) { cond_wait($items) } $items--; usleep(1500); } $queue->enqueue(1); } }) } 1 .. 2;
for (1 .. 30) { usleep(1000); lock($items); $items++; cond_signal($items); }
my $sum = 0; $sum += $queue->dequeue for 1 .. 30; $_->join for @crowd; print "$sum\n";
