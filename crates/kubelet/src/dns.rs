//! The node's name server: listens on an address of loopback, says what it is told to say, and asks the servers of this
//! machine for all other names.
//!
//! # Invariants
//!
//! - A query costs one place of a bounded number while another server is asked; without a place it is left unanswered,
//!   and the asker tries again.
//! - What comes back from another server is passed on only if it is the reply to this query, from that server.
//!
//! # Deliberately absent
//!
//! A cache: the servers of this machine have theirs, and our own names change with every pod.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Where programs look for a name server: a `resolv.conf` cannot say another port.
pub const PORT: u16 = 53;
/// Bytes of a reply over UDP that everybody takes.
const UDP_ROOM: usize = 512;
/// Bytes of a message over TCP.
const TCP_ROOM: usize = u16::MAX as usize;
/// Largest datagram that is passed on.
const DATAGRAM_MAX: usize = 4096;
/// Queries for which other servers are asked at once.
const ASKED_MAX: usize = 256;
/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// Servers that are asked, one after the other, as a C library does.
const SERVERS_MAX: usize = 3;
/// How long a server may take.
const SERVER_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a connection may be silent.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How often a port that is free for both protocols is looked for.
const PORT_TRIES: usize = 16;

/// What becomes of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// This is the reply.
    Reply(Vec<u8>),
    /// Another server may know.
    Elsewhere,
    /// It gets no reply.
    Nothing,
}

/// Knows the names of the cluster.
pub trait Teller: Send + Sync + 'static {
    /// Answers a query, in at most so many bytes unless the asker takes more.
    fn tell(&self, query: &[u8], room: usize) -> Told;

    /// The reply that says that nothing could be found out.
    fn failure(&self, query: &[u8]) -> Option<Vec<u8>>;
}

/// What this machine says of name servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// The servers.
    pub servers: Vec<SocketAddr>,
    /// Domains in which short names are looked for.
    pub search: Vec<String>,
}

impl Host {
    /// Reads a `resolv.conf`. Of several lines with domains the last one counts.
    #[must_use]
    pub fn read(text: &str) -> Host {
        let mut host = Host::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                // The zone of an address that is only valid on one link has no place in an address of ours.
                Some("nameserver") => {
                    host.servers.extend(words.next().and_then(|it| it.parse::<IpAddr>().ok()).map(server));
                }
                Some("search") => host.search = words.map(|it| it.trim_end_matches('.').to_owned()).collect(),
                _ => {}
            }
        }
        host.servers.truncate(SERVERS_MAX);
        host.search.retain(|it| !it.is_empty());
        host
    }
}

fn server(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, PORT)
}

/// A name server, until this is dropped.
pub struct NameServer {
    address: SocketAddr,
    /// Ended with this value.
    _tasks: JoinSet<()>,
}

impl NameServer {
    /// Listens on this address: on the port of name servers if it may be had, else on any. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn start(at: IpAddr, teller: Arc<dyn Teller>, servers: Vec<SocketAddr>) -> io::Result<NameServer> {
        let (udp, tcp) = bind(at)?;
        let address = udp.local_addr()?;
        // To ask oneself would never end.
        let servers = servers.into_iter().filter(|it| *it != address).take(SERVERS_MAX).collect();
        let serving = Arc::new(Serving { teller, servers, places: Arc::new(Semaphore::new(ASKED_MAX)) });
        let mut tasks = JoinSet::new();
        tasks.spawn(serving.clone().serve_datagrams(Arc::new(udp)));
        tasks.spawn(serving.serve_connections(tcp));
        Ok(NameServer { address, _tasks: tasks })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether programs can be told of it: their files name an address, not a port.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.address.port() == PORT
    }
}

fn bind(at: IpAddr) -> io::Result<(UdpSocket, TcpListener)> {
    if let Ok(both) = bind_both(at, PORT) {
        return Ok(both);
    }
    let mut last = Err(io::Error::from(io::ErrorKind::AddrInUse));
    for _ in 0..PORT_TRIES {
        last = bind_both(at, 0);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn bind_both(at: IpAddr, port: u16) -> io::Result<(UdpSocket, TcpListener)> {
    let udp = std::net::UdpSocket::bind((at, port))?;
    let tcp = std::net::TcpListener::bind(udp.local_addr()?)?;
    udp.set_nonblocking(true)?;
    tcp.set_nonblocking(true)?;
    Ok((UdpSocket::from_std(udp)?, TcpListener::from_std(tcp)?))
}

struct Serving {
    teller: Arc<dyn Teller>,
    servers: Vec<SocketAddr>,
    places: Arc<Semaphore>,
}

impl Serving {
    async fn serve_datagrams(self: Arc<Self>, socket: Arc<UdpSocket>) {
        let mut asking = JoinSet::new();
        let mut bytes = vec![0; DATAGRAM_MAX];
        loop {
            while asking.try_join_next().is_some() {}
            // An error tells of an earlier reply that did not arrive; the next query may.
            let Ok((length, from)) = socket.recv_from(&mut bytes).await else { continue };
            let query = &bytes[..length];
            match self.teller.tell(query, UDP_ROOM) {
                Told::Nothing => {}
                Told::Reply(reply) => {
                    let _ = socket.send_to(&reply, from).await;
                }
                Told::Elsewhere => {
                    let Ok(place) = self.places.clone().try_acquire_owned() else { continue };
                    let (serving, socket, query) = (self.clone(), socket.clone(), query.to_vec());
                    asking.spawn(async move {
                        if let Some(reply) = serving.ask_by_datagram(&query).await {
                            let _ = socket.send_to(&reply, from).await;
                        }
                        drop(place);
                    });
                }
            }
        }
    }

    async fn ask_by_datagram(&self, query: &[u8]) -> Option<Vec<u8>> {
        for server in &self.servers {
            if let Ok(Ok(reply)) = timeout(SERVER_WAIT_MAX, by_datagram(*server, query)).await {
                return Some(reply);
            }
        }
        self.teller.failure(query)
    }

    async fn serve_connections(self: Arc<Self>, listener: TcpListener) {
        let mut open = JoinSet::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            while open.try_join_next().is_some() {}
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let serving = self.clone();
                    open.spawn(async move {
                        // A connection that breaks is its asker's affair.
                        let _ = serving.serve_connection(stream).await;
                        drop(place);
                    });
                }
                // Out of sockets, most likely: others have to end first.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn serve_connection(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let query = timeout(IDLE_MAX, receive(&mut stream)).await??;
            let reply = match self.teller.tell(&query, TCP_ROOM) {
                Told::Nothing => return Ok(()),
                Told::Reply(reply) => Some(reply),
                Told::Elsewhere => self.ask_by_connection(&query).await,
            };
            let Some(reply) = reply else { return Ok(()) };
            timeout(IDLE_MAX, send(&mut stream, &reply)).await??;
        }
    }

    async fn ask_by_connection(&self, query: &[u8]) -> Option<Vec<u8>> {
        for server in &self.servers {
            if let Ok(Ok(reply)) = timeout(SERVER_WAIT_MAX, by_connection(*server, query)).await {
                return Some(reply);
            }
        }
        self.teller.failure(query)
    }
}

async fn by_datagram(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A port of its own for each query: replies are hard to guess, and come from that server only.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut bytes = vec![0; DATAGRAM_MAX];
    loop {
        let length = socket.recv(&mut bytes).await?;
        if is_reply(query, &bytes[..length]) {
            bytes.truncate(length);
            return Ok(bytes);
        }
    }
}

async fn by_connection(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    send(&mut stream, query).await?;
    let reply = receive(&mut stream).await?;
    if is_reply(query, &reply) { Ok(reply) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The same number, and marked as a reply.
fn is_reply(query: &[u8], bytes: &[u8]) -> bool {
    bytes.len() >= 12 && bytes[..2] == query[..2] && bytes[2] & 0x80 != 0
}

async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Knows what begins with `o`, ignores what begins with `i`. The first two bytes are the number, the third tells replies.
    struct Parrot;

    impl Teller for Parrot {
        fn tell(&self, query: &[u8], room: usize) -> Told {
            match query.get(12) {
                Some(b'o') => Told::Reply(with(query, &format!("own {room}"))),
                Some(b'i') | None => Told::Nothing,
                _ => Told::Elsewhere,
            }
        }

        fn failure(&self, query: &[u8]) -> Option<Vec<u8>> {
            Some(with(query, "failed"))
        }
    }

    fn query(number: u8, words: &str) -> Vec<u8> {
        [&[0, number][..], &[0; 10], words.as_bytes()].concat()
    }

    fn with(query: &[u8], words: &str) -> Vec<u8> {
        [&query[..2], &[0x80], &[0; 9], words.as_bytes()].concat()
    }

    fn words(reply: &[u8]) -> String {
        String::from_utf8_lossy(&reply[12..]).into_owned()
    }

    async fn by_udp(server: SocketAddr, asked: &[u8]) -> String {
        let reply = timeout(Duration::from_secs(10), by_datagram(server, asked)).await.unwrap().unwrap();
        words(&reply)
    }

    /// Another server: lies first, over UDP.
    async fn other() -> (SocketAddr, JoinSet<()>) {
        let (udp, tcp) = bind(LOOPBACK).unwrap();
        let address = udp.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut bytes = [0; 100];
            while let Ok((length, from)) = udp.recv_from(&mut bytes).await {
                udp.send_to(&with(&query(99, ""), "a lie"), from).await.unwrap();
                udp.send_to(&bytes[..length], from).await.unwrap();
                udp.send_to(&with(&bytes[..length], "other"), from).await.unwrap();
            }
        });
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let asked = receive(&mut stream).await.unwrap();
                send(&mut stream, &with(&asked, "other by connection")).await.unwrap();
            }
        });
        (address, tasks)
    }

    /// Where nobody listens.
    async fn nobody() -> SocketAddr {
        UdpSocket::bind((LOOPBACK, 0)).await.unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn own_names_are_told_and_others_asked_for() {
        let (other, _tasks) = other().await;
        let server = NameServer::start(LOOPBACK, Arc::new(Parrot), vec![nobody().await, other]).unwrap();
        let at = server.address();
        assert_eq!(by_udp(at, &query(1, "own")).await, "own 512");
        assert_eq!(
            by_udp(at, &query(2, "far")).await,
            "other",
            "a server that does not answer is passed over"
        );
        let mut stream = TcpStream::connect(at).await.unwrap();
        for (asked, want) in [("own", "own 65535"), ("far", "other by connection"), ("own", "own 65535")] {
            send(&mut stream, &query(3, asked)).await.unwrap();
            assert_eq!(words(&receive(&mut stream).await.unwrap()), want);
        }
        send(&mut stream, &query(4, "ignored")).await.unwrap();
        assert!(receive(&mut stream).await.is_err(), "what gets no reply ends the connection");
        drop(server);
        let ended = async { while TcpStream::connect(at).await.is_ok() {} };
        timeout(Duration::from_secs(10), ended).await.expect("it ended with its value");
    }

    #[tokio::test]
    async fn when_nobody_knows_that_is_said() {
        let server = NameServer::start(LOOPBACK, Arc::new(Parrot), vec![nobody().await]).unwrap();
        assert_eq!(by_udp(server.address(), &query(1, "far")).await, "failed");
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        send(&mut stream, &query(1, "far")).await.unwrap();
        assert_eq!(words(&receive(&mut stream).await.unwrap()), "failed");
    }

    #[test]
    fn what_a_machine_says_of_name_servers() {
        for (says, text, servers, search) in [
            ("nothing", "", vec![], vec![]),
            (
                "servers in their order",
                "nameserver 10.0.0.1\nnameserver fd00::1\n",
                vec!["10.0.0.1:53", "[fd00::1]:53"],
                vec![],
            ),
            (
                "at most three",
                "nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\nnameserver 1.1.1.4",
                vec!["1.1.1.1:53", "1.1.1.2:53", "1.1.1.3:53"],
                vec![],
            ),
            ("the last domains count", "search a b.\n# search c\nsearch d.e. .\n", vec![], vec!["d.e"]),
            (
                "what cannot be read is left out",
                "nameserver\nnameserver x\n;nameserver 1.1.1.1\noptions ndots:2",
                vec![],
                vec![],
            ),
        ] {
            let host = Host::read(text);
            let found: Vec<String> = host.servers.iter().map(ToString::to_string).collect();
            assert_eq!(
                (found, host.search),
                (
                    servers.into_iter().map(str::to_owned).collect(),
                    search.into_iter().map(str::to_owned).collect()
                ),
                "{says}"
            );
        }
    }
}
