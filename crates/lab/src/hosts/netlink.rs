//! Configuration of interfaces and addresses over rtnetlink (rtnetlink(7)), and messages of other netlink protocols.
//! The few kinds of message are written by hand: libraries for them bring a runtime or the whole protocol.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice};

/// Length of a message's header (`nlmsghdr`).
const HEAD_BYTES: usize = 16;
/// Length of the longest part of a list, more than the kernel sends at once.
const LIST_BYTES: usize = 64 << 10;
/// Attributes begin and end at multiples of this.
const ALIGNMENT: usize = 4;
/// `VETH_INFO_PEER`, of `linux/veth.h`.
const VETH_INFO_PEER: u16 = 1;
/// `IFLA_BRPORT_STATE` and `IFLA_BRPORT_LEARNING`, of `linux/if_link.h`.
const PORT_STATE: u16 = 1;
const PORT_LEARNING: u16 = 8;
/// `BR_STATE_DISABLED` and `BR_STATE_FORWARDING`, of `linux/if_bridge.h`.
const DISABLED: u8 = 0;
const FORWARDING: u8 = 3;
/// `IF_OPER_UP`, of `linux/if.h`.
const OPERATIONAL: u8 = 6;
/// Length of an `ifinfomsg`.
const INTERFACE_BYTES: usize = 16;

/// A socket that acts on the network namespace in which it was made: one of rtnetlink configures interfaces.
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket of rtnetlink in the calling thread's namespace.
    pub(super) fn open() -> io::Result<Self> {
        // `NETLINK_ROUTE` is protocol 0, the default.
        Self::of(None)
    }

    /// Opens a socket of a netlink protocol in the calling thread's namespace.
    pub(super) fn of(protocol: Option<Protocol>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        Ok(Self { socket, sequence: 0 })
    }

    pub(super) fn add_bridge(&mut self, name: &str) -> io::Result<()> {
        let mut message = NetlinkMessage::link(libc::RTM_NEWLINK, 0, true);
        message.text(libc::IFLA_IFNAME, name);
        message.nested(libc::IFLA_LINKINFO, |message| message.text(libc::IFLA_INFO_KIND, "bridge"));
        self.ask(message, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
    }

    /// Makes a pair of interfaces: `name` here, and `peer` in another namespace.
    pub(super) fn add_veth(&mut self, name: &str, peer: &str, other: BorrowedFd<'_>) -> io::Result<()> {
        let mut message = NetlinkMessage::link(libc::RTM_NEWLINK, 0, false);
        message.text(libc::IFLA_IFNAME, name);
        message.nested(libc::IFLA_LINKINFO, |message| {
            message.text(libc::IFLA_INFO_KIND, "veth");
            message.nested(libc::IFLA_INFO_DATA, |message| {
                message.nested(VETH_INFO_PEER, |message| {
                    // An interface cannot be up before it has its peer.
                    message.interface(0, false);
                    message.text(libc::IFLA_IFNAME, peer);
                    message.attribute(libc::IFLA_NET_NS_FD, &other.as_raw_fd().to_ne_bytes());
                });
            });
        });
        self.ask(message, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
    }

    /// Sets an interface up.
    pub(super) fn set_up(&mut self, name: &str) -> io::Result<()> {
        let message = NetlinkMessage::link(libc::RTM_NEWLINK, self.index_of(name)?, true);
        self.ask(message, 0)
    }

    /// Makes an interface a port of a bridge.
    pub(super) fn enslave(&mut self, name: &str, bridge: &str) -> io::Result<()> {
        let mut message = NetlinkMessage::link(libc::RTM_NEWLINK, self.index_of(name)?, true);
        message.attribute(libc::IFLA_MASTER, &self.index_of(bridge)?.to_ne_bytes());
        self.ask(message, 0)
    }

    /// Returns true if the kernel sends through an interface. Until a moment after the interface and its peer are up, the
    /// kernel drops frames.
    pub(super) fn is_operational(&mut self, name: &str) -> io::Result<bool> {
        let message = NetlinkMessage::link(libc::RTM_GETLINK, self.index_of(name)?, false);
        self.sequence += 1;
        let message = message.with_head(libc::NLM_F_REQUEST as u16, self.sequence);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = vec![0; LIST_BYTES];
        let (length, _) = rustix::net::recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        match first(answer.get(..length).unwrap_or_default()) {
            Some((kind, contents, _)) if kind == i32::from(libc::RTM_NEWLINK) => {
                let attributes = contents.get(INTERFACE_BYTES..).unwrap_or_default();
                let state = value_of(attributes, libc::IFLA_OPERSTATE).and_then(<[u8]>::first);
                Ok(state == Some(&OPERATIONAL))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Sets if a port of a bridge forwards frames, and if the bridge learns from them which addresses are behind it.
    /// Fails with `ENETDOWN` for a port to forward frames while the kernel takes its interface as down.
    pub(super) fn set_port(&mut self, name: &str, forwards: bool, learns: bool) -> io::Result<()> {
        let mut message = NetlinkMessage::link(libc::RTM_SETLINK, self.index_of(name)?, false);
        // The family of an `ifinfomsg`.
        message.0[HEAD_BYTES] = libc::AF_BRIDGE as u8;
        // Without the flag, the kernel takes the contents as a state.
        message.nested(libc::IFLA_PROTINFO | libc::NLA_F_NESTED as u16, |message| {
            message.attribute(PORT_LEARNING, &[u8::from(learns)]);
            message.attribute(PORT_STATE, &[if forwards { FORWARDING } else { DISABLED }]);
        });
        self.ask(message, 0)
    }

    /// Sets the port to which a bridge forwards frames for a hardware address. Each frame arrives at the port before or at
    /// this one. If the entry is not `fixed`, the kernel forgets it like one that the bridge has learned.
    pub(super) fn forward_to(&mut self, port: &str, hardware_address: [u8; 6], fixed: bool) -> io::Result<()> {
        let mut message = NetlinkMessage::new(libc::RTM_NEWNEIGH);
        // `ndmsg`: family, padding, interface, state, flags, type.
        message.0.extend([libc::AF_BRIDGE as u8, 0, 0, 0]);
        message.0.extend(self.index_of(port)?.to_ne_bytes());
        let state = if fixed { libc::NUD_NOARP } else { libc::NUD_REACHABLE };
        message.0.extend(state.to_ne_bytes());
        message.0.extend([libc::NTF_MASTER, 0]);
        message.attribute(libc::NDA_LLADDR, &hardware_address);
        self.ask(message, libc::NLM_F_CREATE | libc::NLM_F_REPLACE)
    }

    /// Sets the hardware address of an interface.
    pub(super) fn set_hardware_address(&mut self, name: &str, address: [u8; 6]) -> io::Result<()> {
        let mut message = NetlinkMessage::link(libc::RTM_NEWLINK, self.index_of(name)?, false);
        message.attribute(libc::IFLA_ADDRESS, &address);
        self.ask(message, 0)
    }

    /// Sets the number of segments that an interface accepts as one frame and splits itself.
    pub(super) fn set_segments_max(&mut self, name: &str, count: u32) -> io::Result<()> {
        let mut message = NetlinkMessage::link(libc::RTM_NEWLINK, self.index_of(name)?, true);
        message.attribute(libc::IFLA_GSO_MAX_SEGS, &count.to_ne_bytes());
        self.ask(message, 0)
    }

    /// Removes an interface, with its peer.
    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        let message = NetlinkMessage::link(libc::RTM_DELLINK, self.index_of(name)?, false);
        self.ask(message, 0)
    }

    /// Sets an interface's address, and with it the route to its network.
    pub(super) fn add_address(&mut self, name: &str, address: Ipv4Addr, prefix_bits: u8) -> io::Result<()> {
        let mut message = NetlinkMessage::new(libc::RTM_NEWADDR);
        // `ifaddrmsg`: family, prefix, flags, scope (everywhere), interface.
        message.0.extend([libc::AF_INET as u8, prefix_bits, 0, 0]);
        message.0.extend(self.index_of(name)?.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &address.octets());
        message.attribute(libc::IFA_ADDRESS, &address.octets());
        self.ask(message, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
    }

    fn index_of(&self, name: &str) -> io::Result<u32> {
        Ok(netdevice::name_to_index(&self.socket, name)?)
    }

    /// Sends a message and reads its acknowledgement.
    pub(super) fn ask(&mut self, message: NetlinkMessage, flags: i32) -> io::Result<()> {
        self.sequence += 1;
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        rustix::net::send(&self.socket, &message.with_head(flags, self.sequence), SendFlags::empty())?;
        let mut answer = [0; 4096];
        let (length, _) = rustix::net::recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        let number = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
        // An acknowledgement is an error message (`nlmsgerr`) that begins with 0, or an error's number below it.
        match number(HEAD_BYTES).filter(|_| length >= HEAD_BYTES + 4) {
            Some(0) => Ok(()),
            Some(number) => Err(io::Error::from_raw_os_error(-number)),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Sends a message that asks for a list. Returns the contents of the messages that are the list.
    pub(super) fn list(&mut self, message: NetlinkMessage) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        rustix::net::send(&self.socket, &message.with_head(flags, self.sequence), SendFlags::empty())?;
        let (mut list, mut answer) = (Vec::new(), vec![0; LIST_BYTES]);
        loop {
            let (length, _) = rustix::net::recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
            let mut rest = answer.get(..length).unwrap_or_default();
            if rest.is_empty() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            while let Some((kind, contents, after)) = first(rest) {
                if kind == libc::NLMSG_DONE || kind == libc::NLMSG_ERROR {
                    // Both begin with 0, or with an error's number below it.
                    let number =
                        contents.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
                    return if number < 0 { Err(io::Error::from_raw_os_error(-number)) } else { Ok(list) };
                }
                list.push(contents.to_vec());
                rest = after;
            }
        }
    }
}

/// Returns the type of the first message of `bytes`, its contents, and the bytes after it; `None` at the end.
fn first(bytes: &[u8]) -> Option<(i32, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let rest = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    Some((kind.into(), bytes.get(HEAD_BYTES..length)?, rest))
}

/// Returns the value of the first attribute of this type.
fn value_of(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let number = |at: usize| Some(u16::from_ne_bytes(attributes.get(at..at + 2)?.try_into().ok()?));
        let (length, kind) = (usize::from(number(0)?), number(2)?);
        if kind == wanted {
            return attributes.get(4..length);
        }
        // A length of 0 would go on forever.
        attributes = attributes.get(length.max(4).next_multiple_of(ALIGNMENT)..)?;
    }
}

/// A message without the header fields that are set on sending.
pub(super) struct NetlinkMessage(pub(super) Vec<u8>);

impl NetlinkMessage {
    /// Starts a message of this type.
    pub(super) fn new(kind: u16) -> Self {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        Self(bytes)
    }

    /// Starts a message about the interface with this index; 0 if it has none yet.
    fn link(kind: u16, index: u32, is_up: bool) -> Self {
        let mut message = Self::new(kind);
        message.interface(index, is_up);
        message
    }

    /// Appends an `ifinfomsg`: family, type, index, flags, and the mask of flags to change.
    fn interface(&mut self, index: u32, is_up: bool) {
        let up = if is_up { libc::IFF_UP as u32 } else { 0 };
        self.0.extend([0; 4]);
        [index, up, up].iter().for_each(|word| self.0.extend(word.to_ne_bytes()));
    }

    fn text(&mut self, kind: u16, text: &str) {
        let bytes: Vec<u8> = text.bytes().chain([0]).collect();
        self.attribute(kind, &bytes);
    }

    fn attribute(&mut self, kind: u16, bytes: &[u8]) {
        self.nested(kind, |message| message.0.extend(bytes));
    }

    /// Appends an attribute that contains what `fill` appends.
    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.0.extend([0; 4]);
        fill(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
    }

    fn with_head(mut self, flags: u16, sequence: u32) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_an_attribute_is_found_behind_others() {
        let mut message = NetlinkMessage::new(libc::RTM_NEWLINK);
        message.text(libc::IFLA_IFNAME, "near");
        message.attribute(libc::IFLA_OPERSTATE, &[OPERATIONAL]);
        let attributes = &message.0[HEAD_BYTES..];
        assert_eq!(value_of(attributes, libc::IFLA_OPERSTATE), Some(&[OPERATIONAL][..]));
        assert_eq!(value_of(attributes, libc::IFLA_IFNAME), Some(&b"near\0"[..]));
        assert_eq!(value_of(attributes, libc::IFLA_MASTER), None);
        assert_eq!(value_of(&[0; 8], libc::IFLA_IFNAME), None, "a length of 0");
    }
}
