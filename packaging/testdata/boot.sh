#!/bin/sh
# Boots systemd with nothing but the unit, in namespaces that the caller has made, on a
# copy of /etc and /usr/bin that goes away with them. Arguments: the directory of the
# unit, the program.
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/etc /mnt/etcw /mnt/bin /mnt/binw /mnt/units/roce-xdp.service.d
cp "$1"/roce-xdp.service /mnt/units/
cp "$2" /mnt/roce-xdp
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
umount -R /sys/fs/cgroup
mount -t sysfs sysfs /sys
mount -t cgroup2 none /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/etc,workdir=/mnt/etcw /etc
mount -t overlay overlay -o lowerdir=/usr/bin,upperdir=/mnt/bin,workdir=/mnt/binw /usr/bin
mv /mnt/roce-xdp /usr/bin/roce-xdp

echo 'roce-xdp:x:990:990::/nonexistent:/usr/sbin/nologin' >>/etc/passwd
echo 'roce-xdp:x:990:' >>/etc/group
mkdir -p /etc/roce-xdp
echo '[interface.eth0]' >/etc/roce-xdp/roce-xdp.toml

ip link set lo up
ip netns add peer
ip link add eth0 type veth peer name eth0 netns peer
ip link add eth1 type veth peer name eth1 netns peer
for i in 0 1; do
  ip address add 192.0.2.$((1 + 16 * i))/28 dev eth$i
  ip link set eth$i up
  ip -n peer address add 192.0.2.$((2 + 16 * i))/28 dev eth$i
  ip -n peer link set eth$i up
done

# None of the distribution's units runs: they would set up the machine.
for target in only sysinit basic network shutdown umount exit; do
  printf '[Unit]\nDefaultDependencies=no\n' >/mnt/units/$target.target
done
export container=other SYSTEMD_UNIT_PATH=/mnt/units
exec /lib/systemd/systemd --system --unit=only.target --log-target=console --show-status=no
