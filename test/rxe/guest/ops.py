#!/usr/bin/python3
"""ops.py [PORT]: lends rxe0 to a test of another host. Runs in the guest (pyverbs).

Serves one TCP connection after another (default port 18600). A connection is one RC queue
pair with one region of memory; each line is a request, a JSON object whose "do" names a
method of Session, answered by one line: {"ok": RESULT} or {"error": TEXT}.
"""
import hashlib
import json
import socket
import sys
import time
import traceback

from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import RecvWR, SGE
try:
    from pyverbs.libibverbs_enums import *
except ImportError:  # rdma-core 44
    from pyverbs.enums import *

ACCESS = 0x1 | 0x2 | 0x4 | 0x8         # local and remote write, read, atomic
MW_BIND, FLUSH_GLOBAL = 0x10, 0x100
OPS, NEW_OPS = 0x3ff, 0x1800           # ibv_qp_create_send_ops_flags; FLUSH and ATOMIC WRITE since Linux 6.2
WC_FIELDS = ('wr_id', 'status', 'opcode', 'byte_len', 'wc_flags')


class Session:
    def open(self, gid, mtu, size, psn, timeout, retry, rnr, min_rnr, rd):
        self.attr = dict(mtu=mtu, psn=psn, timeout=timeout, retry=retry, rnr=rnr, min_rnr=min_rnr, rd=rd, gid=gid)
        self.ctx = Context(name='rxe0')
        self.pd, self.cq, self.windows = PD(self.ctx), CQ(self.ctx, 256), []
        self.mr = MR(self.pd, size, ACCESS | MW_BIND | FLUSH_GLOBAL)
        self.mr.write(bytes(size), size)
        cap = QPCap(max_send_wr=64, max_recv_wr=64, max_send_sge=1, max_recv_sge=1)
        self.qp = QPEx(self.ctx, QPInitAttrEx(
            qp_type=IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1, pd=self.pd, send_ops_flags=OPS | NEW_OPS,
            comp_mask=IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
        return dict(qpn=self.qp.qp_num, psn=psn, gid=str(self.ctx.query_gid(1, gid).gid), rkey=self.mr.rkey, addr=self.mr.buf)

    def connect(self, qpn, psn, gid):
        a, q = self.attr, QPAttr(port_num=1)
        gr = GlobalRoute(dgid=GID(gid), sgid_index=a['gid'], hop_limit=64)
        q.ah_attr = AHAttr(gr=gr, is_global=1, port_num=1)
        q.qp_access_flags, q.pkey_index = ACCESS | FLUSH_GLOBAL, 0
        q.path_mtu = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}[a['mtu']]
        q.dest_qp_num, q.rq_psn, q.sq_psn = qpn, psn, a['psn']
        q.max_rd_atomic = q.max_dest_rd_atomic = a['rd']
        q.min_rnr_timer, q.timeout, q.retry_cnt, q.rnr_retry = a['min_rnr'], a['timeout'], a['retry'], a['rnr']
        self.qp.to_rts(q)

    def fill(self, off, n, seed):
        self.mr.write(hashlib.shake_128(seed.encode()).digest(n), n, off)

    def set(self, off, data):
        b = bytes.fromhex(data)
        self.mr.write(b, len(b), off)

    def sum(self, off, n):
        return hashlib.sha256(self.mr.read(n, off) if n else b'').hexdigest()

    def recv(self, id, off, n):
        self.qp.post_recv(RecvWR(wr_id=id, num_sge=1, sg=[SGE(self.mr.buf + off, n, self.mr.lkey)]))

    def post(self, op, id, off=0, n=0, addr=0, rkey=0, imm=0, cmp=0, swap=0, level=0):
        """A send work request. pyverbs puts the immediate into network order, but takes it out raw."""
        q = self.qp
        q.wr_start()
        q.wr_id, q.wr_flags = id, 2
        {'SEND': lambda: q.wr_send(), 'SEND_WITH_IMM': lambda: q.wr_send_imm(imm), 'SEND_WITH_INV': lambda: q.wr_send_inv(rkey),
         'RDMA_WRITE': lambda: q.wr_rdma_write(rkey, addr), 'RDMA_WRITE_WITH_IMM': lambda: q.wr_rdma_write_imm(rkey, addr, imm),
         'RDMA_READ': lambda: q.wr_rdma_read(rkey, addr),
         'ATOMIC_CMP_AND_SWP': lambda: q.wr_atomic_cmp_swp(rkey, addr, cmp, swap),
         'ATOMIC_FETCH_AND_ADD': lambda: q.wr_atomic_fetch_add(rkey, addr, cmp),
         'FLUSH': lambda: q.wr_flush(rkey, addr, n, 1, level),
         'ATOMIC_WRITE': lambda: q.wr_atomic_write(rkey, addr, self.mr.read(8, off))}[op]()
        if op not in ('FLUSH', 'ATOMIC_WRITE'):
            q.wr_set_sge(SGE(self.mr.buf + off, n, self.mr.lkey))
        q.wr_complete()

    def wait(self, n, seconds):
        """The next n completions, fewer when the time is over."""
        end, got = time.monotonic() + seconds, []
        while len(got) < n and time.monotonic() < end:
            k, wcs = self.cq.poll(n - len(got))
            got += [{f: getattr(w, f) for f in WC_FIELDS} | {'imm': socket.ntohl(w.imm_data)} for w in wcs]
            if not k:
                time.sleep(0.002)
        return got

    def state(self):
        return int(self.qp.query(IBV_QP_STATE)[0].qp_state)

    def window(self, off, n):
        """Binds a type 2 memory window to a range of the region; its key."""
        mw = MW(self.pd, IBV_MW_TYPE_2)
        self.windows.append(mw)
        key = (mw.rkey & ~0xff) | ((mw.rkey + 1) & 0xff)
        self.qp.wr_start()
        self.qp.wr_id, self.qp.wr_flags = 0, 2
        self.qp.wr_bind_mw(mw, key, MWBindInfo(self.mr, self.mr.buf + off, n, 0x6))
        self.qp.wr_complete()
        wc = self.wait(1, 10)
        if not wc or wc[0]['status']:
            raise RuntimeError(f'bind failed: {wc}')
        return key

    def close(self):
        for x in [getattr(self, 'qp', None), *getattr(self, 'windows', []), getattr(self, 'mr', None), getattr(self, 'cq', None),
                  getattr(self, 'pd', None), getattr(self, 'ctx', None)]:
            if x is not None:
                x.close()


def serve(conn):
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s, file = Session(), conn.makefile('rw')
    try:
        for line in file:
            r = json.loads(line)
            try:
                a = {'ok': getattr(s, r.pop('do'))(**r)}
            except Exception as e:
                a = {'error': f'{type(e).__name__}: {e} ({traceback.format_exc().splitlines()[-3].strip()})'}
            file.write(json.dumps(a) + '\n')
            file.flush()
    finally:
        s.close()
        conn.close()


port = int(sys.argv[1]) if len(sys.argv) > 1 else 18600
listener = socket.create_server(('', port), family=socket.AF_INET6, dualstack_ipv6=True)
print('ready', flush=True)
while True:
    try:
        serve(listener.accept()[0])
    except Exception:
        traceback.print_exc()
