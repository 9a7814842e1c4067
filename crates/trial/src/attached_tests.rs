use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

use super::*;

impl ServersInUse {
    /// Returns the only server of clients.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let name = Address::Tcp(address.ip().to_string(), address.port());
        Self { first: vec![(name, vec![address])], others: Mutex::default() }
    }
}

/// Returns the servers at these addresses.
fn in_use(addresses: &[&Address]) -> Result<ServersInUse, TrialError> {
    ServersInUse::of(addresses.iter().map(|address| (*address).clone()).collect(), "there")
}

/// A server that listens on this machine, and a connection of this process to it.
struct Server {
    address: Address,
    client: TcpStream,
    _listener: TcpListener,
    _accepted: TcpStream,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let client = TcpStream::connect(at).unwrap();
        client.set_nonblocking(true).unwrap();
        let accepted = listener.accept().unwrap().0;
        let address = Address::Tcp("localhost".to_owned(), at.port());
        Self { address, client, _listener: listener, _accepted: accepted }
    }

    fn is_reset(&self) -> bool {
        self.client.peek(&mut [0]).unwrap_err().kind() != std::io::ErrorKind::WouldBlock
    }
}

#[test]
fn connections_to_the_servers_of_clients_are_reset_and_no_others() {
    let [first, second, other] = [(); 3].map(|()| Server::start());
    let servers = in_use(&[&first.address, &first.address]).unwrap();
    assert_eq!(servers.words(), "the server");
    // One that sessions did not know at their beginning.
    servers.add([&first.address, &second.address].into_iter());
    assert_eq!(servers.words(), "all servers");
    servers.reset().unwrap();
    assert!(first.is_reset() && second.is_reset() && !other.is_reset());
    let error = servers.reset().unwrap_err();
    assert_eq!(error.what, "no TCP connection of Plimsoll to all servers was open: nothing was reset");
}

#[test]
fn a_storm_has_one_target_for_each_server_at_the_address_in_use() {
    let server = Server::start();
    let socket = Address::Unix(PathBuf::from("/there/socket"));
    let servers = in_use(&[&server.address, &socket, &server.address, &socket]).unwrap();
    let targets = servers.storm_targets().unwrap();
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let at = server.client.peer_addr().unwrap();
    // The name may have an address of IPv6, too, where nothing listens.
    assert_eq!(names, [at.to_string().as_str(), "/there/socket"]);
}

#[test]
fn sessions_that_do_not_tell_their_servers_have_no_faults_on_their_side() {
    let error = ServersInUse::of(addresses(&Sessions::Blocking(Vec::new())), "there").err().unwrap();
    assert_eq!(error.what, "clients of there do not tell to which servers they connect");
    // No resolver is asked for a text that cannot be a name.
    let unknown = in_use(&[&Address::Tcp("no\0host".to_owned(), 1)]).err().unwrap();
    assert_eq!(unknown.kind, StoreErrorKind::Unreachable);
}

#[test]
fn hosts_are_counted_behind_the_login() {
    let hosts = ["far://a", "far://u:p,q@a,b:5433/db", "far://a,b,c", "far://u@/db?host=/run/sockets"];
    assert_eq!(hosts.map(hosts_in), [1, 2, 3, 1]);
}
