//! Packet sockets (packet(7)) of a link's interfaces.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, sockopt};

/// Frames of all types, for [`PacketSocket::receive`].
pub(super) const ALL_FRAMES: u16 = libc::ETH_P_ALL as u16;
/// A reserved type, which no frame has.
pub(super) const NO_FRAMES: u16 = 0xffff;
/// Buffer of a packet socket in the kernel.
const SOCKET_BYTES: usize = 8 << 20;

/// Socket that sends and receives the frames of an interface.
pub(super) struct PacketSocket {
    pub(super) socket: OwnedFd,
    interface: i32,
}

impl PacketSocket {
    /// Opens a socket for an interface of the calling thread's network namespace. It receives nothing yet.
    pub(super) fn open(interface: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // With protocol 0 no frame of another interface arrives.
        let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES);
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BYTES);
        for option in [libc::PACKET_VNET_HDR, libc::PACKET_IGNORE_OUTGOING] {
            let on: libc::c_int = 1;
            // SAFETY: the kernel reads one int from a valid address.
            let refused = unsafe {
                let length = size_of_val(&on) as libc::socklen_t;
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, (&raw const on).cast(), length)
            };
            if refused != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let interface = netdevice::name_to_index(&socket, interface)? as i32;
        let opened = Self { socket, interface };
        // A socket that is not bound to its interface cannot send.
        opened.receive(0)?;
        Ok(opened)
    }

    /// Receives from now on the frames of this type that arrive at the interface. Those that were received before stay.
    pub(super) fn receive(&self, frame_type: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: frame_type.to_be(),
            sll_ifindex: self.interface,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the kernel reads one address structure from a valid address.
        let refused = unsafe {
            let length = size_of_val(&address) as libc::socklen_t;
            libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length)
        };
        if refused != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
