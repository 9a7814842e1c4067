//! Two hosts with a slow link between them, until standard input ends. Tests run this as another user, and kill it.

#![allow(clippy::print_stdout, reason = "tests read the output")]

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use plimsoll_core::Link;
use plimsoll_lab::hosts::{Network, become_owner};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    become_owner()?;
    let network = Network::shared()?;
    let hosts = [network.add_host()?, network.add_host()?];
    hosts[1].set_link(Link { delay: Duration::from_millis(20), ..Link::default() })?;

    let listener = {
        let _guard = hosts[1].enter()?;
        TcpListener::bind((hosts[1].address(), 0))?
    };
    let address = listener.local_addr()?;
    let took = {
        let _guard = hosts[0].enter()?;
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
        let (mut answering, _) = listener.accept()?;
        let since = Instant::now();
        stream.write_all(b"x")?;
        answering.read_exact(&mut [0])?;
        since.elapsed()
    };
    // Prints what its child processes may do, the time, and the namespaces.
    let own = fs::read_link("/proc/self/ns/user")?;
    let child = std::process::Command::new("grep").args(["CapAmb", "/proc/self/status"]).output()?;
    print!("{} {} {} µs", own.display(), String::from_utf8(child.stdout)?.trim(), took.as_micros());
    for path in [network.namespace(), hosts[0].namespace(), hosts[1].namespace()] {
        print!(" {}", fs::read_link(path)?.display());
    }
    println!();
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
