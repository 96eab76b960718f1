"""rdmacm: librdmacm and the verbs that a test needs, by their C interface (rdma/rdma_cma.h and
infiniband/verbs.h): pyverbs cuts private data at its first zero and has no status of events."""
import ctypes
import os
import socket
import struct
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char, c_int, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p,
                    cast, string_at)

cma = ctypes.CDLL('librdmacm.so.1', use_errno=True)
ibv = ctypes.CDLL('libibverbs.so.1', use_errno=True)

EVENTS = ('ADDR_RESOLVED ADDR_ERROR ROUTE_RESOLVED ROUTE_ERROR CONNECT_REQUEST CONNECT_RESPONSE CONNECT_ERROR UNREACHABLE '
          'REJECTED ESTABLISHED DISCONNECTED DEVICE_REMOVAL MULTICAST_JOIN MULTICAST_ERROR ADDR_CHANGE TIMEWAIT_EXIT').split()
PS_TCP, PS_UDP = 0x106, 0x111
QPT_RC, QPT_UD = 2, 4
OPCODES = dict(RDMA_WRITE=0, RDMA_WRITE_WITH_IMM=1, SEND=2, SEND_WITH_IMM=3, RDMA_READ=4, ATOMIC_CMP_AND_SWP=5, ATOMIC_FETCH_AND_ADD=6)
SIGNALED = 2


def struct_of(name, *fields):
    return type(name, (Structure,), {'_fields_': fields})


# rdma_cm_id, up to pd; route is what the tests do not look at.
ID = struct_of('ID', ('verbs', c_void_p), ('channel', c_void_p), ('context', c_void_p), ('qp', c_void_p), ('route', c_uint64 * 39),
               ('ps', c_int), ('port', c_uint8), ('event', c_void_p), ('send_channel', c_void_p), ('send_cq', c_void_p),
               ('recv_channel', c_void_p), ('recv_cq', c_void_p), ('srq', c_void_p), ('pd', c_void_p))
PARAM = struct_of('PARAM', ('private', c_void_p), ('length', c_uint8), ('resources', c_uint8), ('depth', c_uint8), ('flow', c_uint8),
                  ('retry', c_uint8), ('rnr', c_uint8), ('srq', c_uint8), ('qpn', c_uint32))
UD_PARAM = struct_of('UD_PARAM', ('private', c_void_p), ('length', c_uint8), ('ah', c_uint64 * 4), ('qpn', c_uint32), ('qkey', c_uint32))
EVENT = struct_of('EVENT', ('id', c_void_p), ('listener', c_void_p), ('type', c_int), ('status', c_int), ('ud', UD_PARAM))
QP = struct_of('QP', ('context', c_void_p), ('user', c_void_p), ('pd', c_void_p), ('send_cq', c_void_p), ('recv_cq', c_void_p),
               ('srq', c_void_p), ('handle', c_uint32), ('number', c_uint32))
QP_INIT = struct_of('QP_INIT', ('user', c_void_p), ('send_cq', c_void_p), ('recv_cq', c_void_p), ('srq', c_void_p),
                    ('cap', c_uint32 * 5), ('type', c_int), ('sig_all', c_int))
MR = struct_of('MR', ('context', c_void_p), ('pd', c_void_p), ('addr', c_void_p), ('length', c_uint64), ('handle', c_uint32),
               ('lkey', c_uint32), ('rkey', c_uint32))
SGE = struct_of('SGE', ('addr', c_uint64), ('length', c_uint32), ('lkey', c_uint32))
RECV = struct_of('RECV', ('id', c_uint64), ('next', c_void_p), ('sg', POINTER(SGE)), ('n', c_int))
# a to d are the union: rdma (addr, rkey), atomic (addr, compare or add, swap, rkey), ud (ah, qpn and qkey).
SEND = struct_of('SEND', ('id', c_uint64), ('next', c_void_p), ('sg', POINTER(SGE)), ('n', c_int), ('opcode', c_int), ('flags', c_uint32),
                 ('imm', c_uint32), ('a', c_uint64), ('b', c_uint64), ('c', c_uint64), ('d', c_uint64), ('rest', c_uint64 * 7))
WC = struct_of('WC', ('id', c_uint64), ('status', c_int), ('opcode', c_int), ('vendor', c_uint32), ('length', c_uint32), ('imm', c_uint32),
               ('qpn', c_uint32), ('src', c_uint32), ('flags', c_uint32), ('pkey', c_uint16), ('slid', c_uint16), ('sl', c_uint8), ('path', c_uint8))
# ibv_context begins with the device and the operations that verbs.h calls inline.
OPS = struct_of('OPS', ('device', c_void_p), ('ops', c_void_p * 32))
POLL_CQ = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(WC))
POST_SEND = CFUNCTYPE(c_int, c_void_p, POINTER(SEND), POINTER(c_void_p))
POST_RECV = CFUNCTYPE(c_int, c_void_p, POINTER(RECV), POINTER(c_void_p))

for lib, returns, name, *args in (
        (cma, c_void_p, 'rdma_create_event_channel'), (cma, None, 'rdma_destroy_event_channel', c_void_p),
        (cma, c_int, 'rdma_create_id', c_void_p, POINTER(c_void_p), c_void_p, c_int), (cma, c_int, 'rdma_destroy_id', c_void_p),
        (cma, c_int, 'rdma_bind_addr', c_void_p, c_void_p), (cma, c_int, 'rdma_listen', c_void_p, c_int),
        (cma, c_int, 'rdma_resolve_addr', c_void_p, c_void_p, c_void_p, c_int), (cma, c_int, 'rdma_resolve_route', c_void_p, c_int),
        (cma, c_int, 'rdma_create_qp', c_void_p, c_void_p, POINTER(QP_INIT)), (cma, None, 'rdma_destroy_qp', c_void_p),
        (cma, c_int, 'rdma_connect', c_void_p, POINTER(PARAM)), (cma, c_int, 'rdma_accept', c_void_p, POINTER(PARAM)),
        (cma, c_int, 'rdma_reject', c_void_p, c_void_p, c_uint8), (cma, c_int, 'rdma_disconnect', c_void_p),
        (cma, c_int, 'rdma_get_cm_event', c_void_p, POINTER(POINTER(EVENT))), (cma, c_int, 'rdma_ack_cm_event', POINTER(EVENT)),
        (ibv, POINTER(MR), 'ibv_reg_mr', c_void_p, c_void_p, c_uint64, c_int), (ibv, c_int, 'ibv_dereg_mr', POINTER(MR)),
        (ibv, c_int, 'ibv_query_qp', c_void_p, c_void_p, c_int, c_void_p), (ibv, c_void_p, 'ibv_create_ah', c_void_p, c_void_p),
        (ibv, c_int, 'ibv_destroy_ah', c_void_p)):
    f = getattr(lib, name)
    f.restype, f.argtypes = returns, args


def must(result):
    """Raises what errno says unless a call has returned 0."""
    if result:
        e = ctypes.get_errno() or abs(result)
        raise OSError(e, os.strerror(e))


def sockaddr(addr, port):
    if ':' in addr:
        return struct.pack('=H', socket.AF_INET6) + struct.pack('>HI', port, 0) + socket.inet_pton(socket.AF_INET6, addr) + bytes(4)
    return struct.pack('=H', socket.AF_INET) + struct.pack('>H', port) + socket.inet_aton(addr) + bytes(8)


def context_op(context, index, kind):
    return cast(cast(context, POINTER(OPS)).contents.ops[index], kind)
