//! Tests of port-forward.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{V4, World};

#[tokio::test]
async fn ports_are_forwarded_and_errors_have_their_channel() {
    let world = World::new();
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = server.local_addr().unwrap().port();
    let closed = {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
        gone.local_addr().unwrap().port()
    };
    let path = format!("/portForward/n/p?port={open},{closed}");
    let mut client = world.stream(&path, V4).await.unwrap();
    client.send(0, b"hello").await;
    let (mut stream, _) = server.accept().await.unwrap();
    let mut heard = [0; 5];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    stream.write_all(b"welcome").await.unwrap();
    drop(stream);
    let all = client.rest().await;
    let port = |port: u16| String::from_utf8_lossy(&port.to_le_bytes()).into_owned();
    assert_eq!(all[&0], format!("{}welcome", port(open)));
    assert_eq!(all[&1], port(open));
    assert_eq!(all[&2], port(closed));
    let begins = format!(
        "{}error forwarding port {closed} to pod p, uid : u: dial tcp 127.0.0.1:{closed}: ",
        port(closed)
    );
    assert!(all[&3].starts_with(&begins), "{}", all[&3]);
}
