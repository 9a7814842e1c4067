//! Loop over the crate `h2` alone, as usually written: the least that a client of etcd costs.
//! Reads the keys of a file at random, or puts all of them with values of a given length.
//!
//!     bare HOST:PORT KEYS_FILE read CLIENTS SECONDS
//!     bare HOST:PORT KEYS_FILE put BYTES

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, which a panic ends")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;

async fn connect(server: &str) -> SendRequest<Bytes> {
    let socket = TcpStream::connect(server.parse::<std::net::SocketAddr>().unwrap()).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (sender, connection) = h2::client::Builder::new().handshake(socket).await.unwrap();
    spawn_local(async move { drop(connection.await) });
    sender
}

fn message(fields: &[&[u8]]) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_bytes(0, 5);
    for (bytes, field) in fields.iter().zip(1u8..) {
        out.put_u8(field << 3 | 2);
        let mut length = bytes.len();
        while length >= 0x80 {
            out.put_u8(length as u8 | 0x80);
            length >>= 7;
        }
        out.put_u8(length as u8);
        out.put_slice(bytes);
    }
    let length = (out.len() - 5) as u32;
    out[1..5].copy_from_slice(&length.to_be_bytes());
    out.freeze()
}

async fn call(sender: &mut SendRequest<Bytes>, head: &Request<()>, message: Bytes) -> usize {
    std::future::poll_fn(|context| sender.poll_ready(context)).await.unwrap();
    let (response, mut out) = sender.send_request(head.clone(), false).unwrap();
    out.send_data(message, true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let mut bytes = 0;
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        bytes += piece.len();
        body.flow_control().release_capacity(piece.len()).unwrap();
    }
    let trailers = body.trailers().await.unwrap().unwrap();
    assert_eq!(trailers.get("grpc-status").unwrap(), "0", "{trailers:?}");
    bytes
}

fn head(server: &str, method: &str) -> Request<()> {
    let request = Request::post(format!("http://{server}/etcdserverpb.KV/{method}"));
    request.header("content-type", "application/grpc").header("te", "trailers").body(()).unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, server, file, what, rest @ ..] = &arguments[..] else { panic!("see the first lines of its source") };
    let keys: Vec<Vec<u8>> =
        std::fs::read_to_string(file).unwrap().lines().map(|key| key.as_bytes().to_vec()).collect();
    let keys: Rc<[Vec<u8>]> = keys.into();
    let runtime = Builder::new_current_thread().enable_io().build_local(LocalOptions::default()).unwrap();
    if what == "put" {
        let value = vec![b'v'; rest[0].parse().unwrap()];
        return runtime.block_on(async {
            let (mut sender, head) = (connect(server).await, head(server, "Put"));
            for key in keys.iter() {
                call(&mut sender, &head, message(&[key, &value])).await;
            }
        });
    }
    let (clients, seconds): (u64, u64) = (rest[0].parse().unwrap(), rest[1].parse().unwrap());
    let ops = Rc::new(Cell::new(0u64));
    let began = Instant::now();
    runtime.block_on(async {
        let loops = (0..clients).map(|client| {
            let (server, keys, ops) = (server.clone(), keys.clone(), ops.clone());
            spawn_local(async move {
                let (mut sender, head) = (connect(&server).await, head(&server, "Range"));
                let mut random = client + 1;
                while began.elapsed() < Duration::from_secs(seconds) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let key = &keys[((random >> 33) % keys.len() as u64) as usize];
                    assert!(call(&mut sender, &head, message(&[key])).await > 5);
                    ops.set(ops.get() + 1);
                }
            })
        });
        for task in loops.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used_ns = used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64;
    println!(
        "{} operations in {:.1} s, {} ns of CPU each",
        ops.get(),
        began.elapsed().as_secs_f64(),
        used_ns / ops.get()
    );
}
