#!/bin/bash
# What the guest does at each of its boots; all of it goes to the console.
exec >/dev/ttyS0 2>&1
boot=$(( $(cat /check/boot 2>/dev/null || echo 0) + 1 )); echo $boot > /check/boot; sync
say() { echo "## $*"; }
state() {
    say "boot $boot: thp $(cat /sys/kernel/mm/transparent_hugepage/enabled) defrag $(cat /sys/kernel/mm/transparent_hugepage/khugepaged/defrag) stat_interval $(cat /proc/sys/vm/stat_interval) rps $(cat /sys/class/net/lo/queues/rx-0/rps_cpus)"
    for unit in /etc/systemd/system/quaver-*.service; do
        unit=$(basename $unit)
        say "$unit: $(systemctl is-enabled $unit) $(systemctl is-active $unit) result $(systemctl show -P Result $unit) status $(systemctl show -P ExecMainStatus $unit)"
        systemctl show -P ControlGroup $unit
        journalctl --no-pager -o cat -u $unit | tail -20
    done
    systemd-cgls --no-pager -u 'quaver-*' 2>/dev/null
    say tune status; /usr/local/bin/quaver tune status
}
export HOME=/root
uname -a; systemctl --version | head -1
case $boot in
1)
    state
    cd /root
    /usr/local/bin/quaver cure --persist --yes --allow host --only thp --for 150s --seed 1 -- sh -c 'read it < /sys/kernel/mm/transparent_hugepage/enabled; case $it in "[always]"*) sleep 0.5;; esac; exit 0'
    say cure ended $?
    cat /etc/quaver/*.toml; cat /etc/systemd/system/quaver-cure*.service; cat /etc/tuned/quaver-*/tuned.conf
    for unit in /etc/systemd/system/quaver-*.service; do systemd-analyze verify $unit; say verify $unit $?; done
    # beside it a profile of other kinds of settings, with the unit as it was written
    name=$(basename /etc/quaver/cure-*.toml .toml)
    cp /check/second.toml /etc/quaver/second.toml
    sed "s/$name/second/g" /etc/systemd/system/quaver-$name.service > /etc/systemd/system/quaver-second.service
    # as installing a second profile beside the first one has it
    sed -i "s/^After=.*/& quaver-$name.service/" /etc/systemd/system/quaver-second.service
    mkdir -p /etc/tuned/quaver-second /etc/tuned/quaver-until-now
    printf '[main]\nsummary=Settings that Quaver proved\n\n[sysctl]\nvm.stat_interval=120\n\n[sysfs]\n/sys/class/net/lo/queues/rx-0/rps_cpus=2\n' > /etc/tuned/quaver-second/tuned.conf
    printf '[main]\nsummary=Settings that Quaver proved\n\n[sysfs]\n/proc/sys/vm/stat_interval=120\n/sys/class/net/lo/queues/rx-0/rps_cpus=2\n' > /etc/tuned/quaver-until-now/tuned.conf
    ln -s ../quaver-second.service /etc/systemd/system/multi-user.target.wants/
    state; sync; systemctl reboot ;;
2) sleep 3; state; sync; systemctl reboot ;;
3)
    sleep 3; state
    /usr/local/bin/quaver tune revert; say revert ended $?
    state
    for unit in /etc/systemd/system/quaver-*.service; do systemctl restart $(basename $unit); say restart $?; done
    state
    for unit in /etc/systemd/system/quaver-*.service; do systemctl stop $(basename $unit); say stop $?; done
    state
    say tuned; systemctl is-active tuned; tuned-adm active
    for profile in /etc/tuned/quaver-*; do
        tuned-adm profile $(basename $profile); say tuned-adm $?
        tuned-adm active; tuned-adm verify; say verify $?
        tail -15 /var/log/tuned/tuned.log
        say "thp $(cat /sys/kernel/mm/transparent_hugepage/enabled) defrag $(cat /sys/kernel/mm/transparent_hugepage/khugepaged/defrag) stat_interval $(cat /proc/sys/vm/stat_interval) rps $(cat /sys/class/net/lo/queues/rx-0/rps_cpus)"
    done
    tuned-adm off; say "off: thp $(cat /sys/kernel/mm/transparent_hugepage/enabled) defrag $(cat /sys/kernel/mm/transparent_hugepage/khugepaged/defrag) stat_interval $(cat /proc/sys/vm/stat_interval) rps $(cat /sys/class/net/lo/queues/rx-0/rps_cpus)"
    name=$(basename /etc/quaver/cure-*.toml .toml)
    systemctl disable quaver-$name.service && rm /etc/quaver/$name.toml /etc/tuned/quaver-$name/tuned.conf /etc/systemd/system/quaver-$name.service; say disabled $?
    systemctl is-enabled quaver-$name.service
    sync; systemctl poweroff ;;
*) systemctl poweroff ;;
esac
