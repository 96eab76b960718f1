#!/usr/bin/python3
"""cm.py [PORT]: lends rdma_cm to a test of another host. Runs in the guest.

Serves TCP connections (default port 18601), each in a process of its own, as ops.py does: a line is
a request, a JSON object whose "do" names a method of Session, answered by {"ok": RESULT} or
{"error": TEXT}. A session has ids on one event channel, memory, and a current connection, to which
methods without an id refer.
"""
import hashlib
import json
import mmap
import os
import select
import signal
import socket
import sys
import time
import traceback

from rdmacm import *

ACCESS = 0x1 | 0x2 | 0x4 | 0x8  # local and remote write, read, atomic
SLOT, SLOTS = 4096, 64          # memory of a connection in serve and cycles: to receive, and from its half on to send


class Conn:
    """An rdma_cm_id, with the queue pair that rdma_create_qp makes."""
    def __init__(self, session, ptr, ps=PS_TCP, **param):
        self.s, self.ptr, self.ps, self.param = session, ptr, ps, param
        self.id = cast(ptr, POINTER(ID)).contents
        self.slot, self.state, self.ah = len(session.known) % SLOTS * SLOT, 'new', None
        session.known[ptr] = self

    def create_qp(self):
        init = QP_INIT(type=QPT_UD if self.ps == PS_UDP else QPT_RC, sig_all=1)
        init.cap[:] = 64, 64, 1, 1, 0
        must(cma.rdma_create_qp(self.ptr, None, byref(init)))
        self.qp = cast(self.id.qp, POINTER(QP)).contents
        self.poll_cq = context_op(self.id.verbs, 11, POLL_CQ)
        self.post_send = context_op(self.id.verbs, 25, POST_SEND)
        self.post_recv = context_op(self.id.verbs, 26, POST_RECV)

    def conn_param(self, private='', resources=4, depth=4, retry=7, rnr=7):
        self.private = bytes.fromhex(private)  # kept as long as C looks at it
        return PARAM(private=cast(self.private, c_void_p), length=len(self.private), resources=resources, depth=depth, retry=retry, rnr=rnr)

    def accept(self, **param):
        self.create_qp() if not self.id.qp else None
        p = self.conn_param(**param)
        p.qpn = self.qp.number if self.ps == PS_UDP else 0
        must(cma.rdma_accept(self.ptr, byref(p)))

    def recv(self, id, off, n):
        sg = SGE(self.s.addr + off, n, self.s.mr.contents.lkey)
        must(self.post_recv(self.id.qp, byref(RECV(id=id, sg=ctypes.pointer(sg), n=1)), byref(c_void_p())))

    def post(self, op, id, off=0, n=0, addr=0, rkey=0, imm=0, cmp=0, swap=0, level=0):
        sg = SGE(self.s.addr + off, n, self.s.mr.contents.lkey)
        wr = SEND(id=id, sg=ctypes.pointer(sg), n=1, opcode=OPCODES[op], flags=SIGNALED, imm=socket.htonl(imm), a=addr, b=rkey)
        if op.startswith('ATOMIC'):
            wr.b, wr.c, wr.d = cmp, swap, rkey
        if self.ps == PS_UDP:
            wr.a, wr.b = self.ah, self.peer_qpn | self.peer_qkey << 32
        must(self.post_send(self.id.qp, byref(wr), byref(c_void_p())))

    def poll(self, n):
        got, out = (WC * n)(), []
        for cq in {self.id.send_cq, self.id.recv_cq}:
            for w in got[:max(0, self.poll_cq(cq, n - len(out), got))] if len(out) < n else ():
                out.append(dict(wr_id=w.id, status=w.status, opcode=w.opcode, byte_len=w.length, wc_flags=w.flags, imm=socket.ntohl(w.imm)))
        return out

    def destroy(self):
        if self.s.known.pop(self.ptr, None) is None:
            return
        if self.ah:
            ibv.ibv_destroy_ah(self.ah)
        if self.id.qp:
            cma.rdma_destroy_qp(self.ptr)
        must(cma.rdma_destroy_id(self.ptr))


class Session:
    def __init__(self):
        self.channel, self.known, self.mr = cma.rdma_create_event_channel(), {}, None
        self.fd = cast(self.channel, POINTER(c_int)).contents.value
        self.poller = select.poll()
        self.poller.register(self.fd, select.POLLIN)
        self.cur = self.listener = None

    def memory(self, size, addr):
        """Registers memory with the device of an own address. Its protection domain lasts as long as one id is bound there."""
        self.map = mmap.mmap(-1, size)
        self.addr = ctypes.addressof(c_char.from_buffer(self.map))
        anchor = self.create(PS_TCP)
        must(cma.rdma_bind_addr(anchor.ptr, sockaddr(addr, 0)))
        self.mr = ibv.ibv_reg_mr(anchor.id.pd, self.addr, size, ACCESS)

    def region(self):
        return dict(rkey=self.mr.contents.rkey, addr=self.addr, qpn=self.cur.qp.number)

    def create(self, ps, **param):
        ptr = c_void_p()
        must(cma.rdma_create_id(self.channel, byref(ptr), None, ps))
        return Conn(self, ptr.value, ps, **param)

    def listen(self, addr, port, ps=PS_TCP, backlog=64):
        self.listener = self.create(ps)
        must(cma.rdma_bind_addr(self.listener.ptr, sockaddr(addr, port)))
        must(cma.rdma_listen(self.listener.ptr, backlog))

    def dial(self, addr, port, ps=PS_TCP, **param):
        """Begins a connection; step does the rest."""
        c = self.create(ps, **param)
        must(cma.rdma_resolve_addr(c.ptr, None, sockaddr(addr, port), 5000))
        return c

    def connect(self, **args):
        """Sends a request for a connection."""
        self.cur = c = self.dial(**args)
        while c.state != 'asked':
            e = self.step(20)
            if e is None or e['event'].endswith('ERROR'):
                raise RuntimeError(f'no way to the peer: {e}')

    def step(self, seconds):
        """The next event, after what follows from those of resolution. None: there was none in time."""
        if not self.poller.poll(seconds * 1000):
            return None
        p = POINTER(EVENT)()
        must(cma.rdma_get_cm_event(self.channel, byref(p)))
        ev, kind = p.contents, EVENTS[p.contents.type]
        c = self.known.get(ev.id)
        if kind == 'CONNECT_REQUEST':
            c = self.cur = Conn(self, ev.id, self.known[ev.listener].ps)
        ud = c.ps == PS_UDP and kind == 'ESTABLISHED'
        param = ev.ud if c.ps == PS_UDP else cast(byref(ev.ud), POINTER(PARAM)).contents
        e = dict(event=kind, status=ev.status, private=string_at(param.private, param.length).hex() if param.private else '')
        if c.ps == PS_TCP:
            e.update(resources=param.resources, depth=param.depth, retry=param.retry, rnr=param.rnr)
        if ud:
            c.peer_qpn, c.peer_qkey = ev.ud.qpn, ev.ud.qkey
            c.ah = ibv.ibv_create_ah(c.id.pd, byref(ev.ud.ah))
            e.update(qpn=ev.ud.qpn, qkey=ev.ud.qkey)
        must(cma.rdma_ack_cm_event(p))
        self.last = c
        if kind == 'ADDR_RESOLVED':
            must(cma.rdma_resolve_route(c.ptr, 5000))
        elif kind == 'ROUTE_RESOLVED':
            c.create_qp()
            c.recv(0, c.slot, SLOT // 2) if c.state == 'cycle' else None
            must(cma.rdma_connect(c.ptr, byref(c.conn_param(**c.param))))
            c.state = 'asked' if c.state == 'new' else c.state
        return e

    def event(self, seconds):
        return self.step(seconds)

    def prepare(self):
        """Makes the queue pair of a request, so that receives can be posted before accept."""
        self.cur.create_qp()

    def accept(self, **param):
        self.cur.accept(**param)

    def reject(self, private=''):
        b = bytes.fromhex(private)
        must(cma.rdma_reject(self.cur.ptr, cast(b, c_void_p), len(b)))

    def disconnect(self):
        must(cma.rdma_disconnect(self.cur.ptr))

    def destroy(self):
        self.cur.destroy()

    def query(self):
        b = ctypes.create_string_buffer(512)
        must(ibv.ibv_query_qp(self.cur.id.qp, b, 1, ctypes.create_string_buffer(512)))
        state, _, mtu = struct.unpack_from('3i', b)
        return dict(state=state, mtu=mtu)

    def state(self):
        return self.query()['state']

    def fill(self, off, n, seed):
        self.map[off:off + n] = hashlib.shake_128(seed.encode()).digest(n)

    def set(self, off, data):
        b = bytes.fromhex(data)
        self.map[off:off + len(b)] = b

    def sum(self, off, n):
        return hashlib.sha256(self.map[off:off + n]).hexdigest()

    def recv(self, **args):
        self.cur.recv(**args)

    def post(self, **args):
        self.cur.post(**args)

    def wait(self, n, seconds):
        end, got = time.monotonic() + seconds, []
        while len(got) < n and time.monotonic() < end:
            got += self.cur.poll(n - len(got)) or time.sleep(0.002) or []
        return got

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def serve(self, n, seconds):
        """Accepts n connections with their private data, echoes a message on each, and waits for their end."""
        ended, end, live = 0, time.monotonic() + seconds, set()
        most = 0
        while ended < n:
            if time.monotonic() > end:
                raise RuntimeError(f'{ended} of {n} connections served, {len(live)} are there')
            e = self.step(0.001)
            if e:
                c = self.last
                if e['event'] == 'CONNECT_REQUEST':
                    c.create_qp()
                    c.recv(0, c.slot, SLOT // 2)
                    c.accept(private=e['private'])
                elif e['event'] == 'ESTABLISHED':
                    live.add(c)
                    most = max(most, len(live))
                elif e['event'] == 'DISCONNECTED':
                    must(cma.rdma_disconnect(c.ptr))
                    c.destroy()
                    live.discard(c)
                    ended += 1
                elif e['event'] != 'TIMEWAIT_EXIT':
                    raise RuntimeError(f'after {ended} connections: {e}')
            for c in live:
                for w in c.poll(2):
                    if w['status'] == 0 and w['opcode'] == 128:
                        c.post('SEND', 1, c.slot, w['byte_len'])
        return dict(served=ended, most=most)

    def cycles(self, n, width, seconds, **to):
        """Makes n connections, width at a time, that send a message and get it back."""
        end, made = time.monotonic() + seconds, 0
        while made < n:
            batch = [self.dial(**to, private=f'{made + i:04x}' + 'a5' * 54) for i in range(min(width, n - made))]
            for c in batch:
                c.state = 'cycle'
            todo = set(batch)

            def pump(until, what):
                while todo:
                    if time.monotonic() > end:
                        raise RuntimeError(f'after {made} connections, {len(todo)} of a batch are not {what}')
                    e = self.step(0.001)
                    if e and e['event'] not in until and e['event'] not in ('ADDR_RESOLVED', 'ROUTE_RESOLVED', 'TIMEWAIT_EXIT'):
                        raise RuntimeError(f'after {made} connections: {e}')
                    yield e if e and e['event'] in until else None

            for e in pump(('ESTABLISHED',), 'echoed'):
                if e:
                    c = self.last
                    if e['private'][:112] != c.param['private'] or e['private'][112:].strip('0'):
                        raise RuntimeError(f'private data came back as {e["private"]}')
                    c.state, c.text = 'up', os.urandom(100)
                    self.map[c.slot + SLOT // 2:c.slot + SLOT // 2 + 100] = c.text
                    c.post('SEND', 1, c.slot + SLOT // 2, 100)
                for c in [c for c in todo if c.state == 'up']:
                    for w in c.poll(2):
                        if w['status']:
                            raise RuntimeError(f'after {made} connections: completion {w}')
                        if w['opcode'] == 128:
                            if w['byte_len'] != 100 or self.map[c.slot:c.slot + 100] != c.text:
                                raise RuntimeError('another message came back')
                            todo.discard(c)
            todo.update(batch)
            for c in batch:
                must(cma.rdma_disconnect(c.ptr))
            for e in pump(('DISCONNECTED',), 'ended'):
                if e:
                    todo.discard(self.last)
            for c in batch:
                c.destroy()
            made += len(batch)
        return made

    def close(self):
        if self.mr:
            ibv.ibv_dereg_mr(self.mr)
        for c in list(self.known.values()):
            c.destroy()
        cma.rdma_destroy_event_channel(self.channel)


def serve(conn):
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s, file = Session(), conn.makefile('rw')
    for line in file:
        r = json.loads(line)
        try:
            a = {'ok': getattr(s, r.pop('do'))(**r)}
        except Exception as e:
            a = {'error': f'{type(e).__name__}: {e} ({traceback.format_exc().splitlines()[-3].strip()})'}
        file.write(json.dumps(a) + '\n')
        file.flush()
    s.close()


if __name__ == '__main__':
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 18601
    listener = socket.create_server(('', port), family=socket.AF_INET6, dualstack_ipv6=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    print('ready', flush=True)
    while True:
        conn = listener.accept()[0]
        if os.fork() == 0:
            listener.close()
            try:
                serve(conn)
            except Exception:
                traceback.print_exc()
            os._exit(0)
        conn.close()
