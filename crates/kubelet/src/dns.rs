//! The DNS server of the node: listens on a loopback address, answers cluster names through a [`DnsResolver`], and
//! forwards all other queries to the host's resolvers.
//!
//! # Guarantees
//!
//! - Forwarded queries are bounded by a semaphore; above the limit a query is dropped, and the client retries.
//! - An upstream reply is passed on only if it matches the query and comes from that server.
//!
//! # Deliberately absent
//!
//! A cache: the host's resolvers have one, and cluster names change with every pod.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The DNS port: `resolv.conf` cannot specify another one.
pub const PORT: u16 = 53;
/// UDP reply limit without EDNS, in bytes.
const UDP_ROOM: usize = 512;
/// Message limit over TCP, in bytes.
const TCP_ROOM: usize = u16::MAX as usize;
/// Maximum forwarded datagram, in bytes.
const DATAGRAM_MAX: usize = 4096;
/// Concurrent forwarded UDP queries.
const ASKED_MAX: usize = 256;
const CONNECTIONS_MAX: usize = 64;
/// Upstream servers tried in order, as a C library does.
const SERVERS_MAX: usize = 3;
/// Timeout of an upstream server.
const SERVER_WAIT_MAX: Duration = Duration::from_secs(2);
/// Idle timeout of a TCP connection.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Attempts to find a port that is free for both UDP and TCP.
const PORT_TRIES: usize = 16;

/// What to do with a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsOutcome {
    Reply(Vec<u8>),
    /// Forward to the upstream servers.
    Forward,
    Drop,
}

/// Resolves the names of the cluster domain.
pub trait DnsResolver: Send + Sync + 'static {
    /// Answers a query in at most `room` bytes unless EDNS allows more.
    fn resolve(&self, query: &[u8], room: usize) -> DnsOutcome;

    /// The SERVFAIL reply to a query.
    fn server_failure(&self, query: &[u8]) -> Option<Vec<u8>>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostResolvConf {
    pub servers: Vec<SocketAddr>,
    pub search: Vec<String>,
}

impl HostResolvConf {
    /// Parses a `resolv.conf`. The last `search` line wins.
    #[must_use]
    pub fn read(text: &str) -> HostResolvConf {
        let mut host = HostResolvConf::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                // Addresses with a zone (`fe80::1%eth0`) are skipped: they cannot be expressed in an `IpAddr`.
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

/// A running DNS server; dropping it stops the server.
pub struct DnsServer {
    address: SocketAddr,
    /// Aborted when this value is dropped.
    _tasks: JoinSet<()>,
}

impl DnsServer {
    /// Listens on port 53 of this address, or on any free port. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Binding failed.
    pub fn start(
        at: IpAddr,
        resolver: Arc<dyn DnsResolver>,
        servers: Vec<SocketAddr>,
    ) -> io::Result<DnsServer> {
        let (udp, tcp) = bind(at)?;
        let address = udp.local_addr()?;
        // Forwarding to itself would loop.
        let servers = servers.into_iter().filter(|it| *it != address).take(SERVERS_MAX).collect();
        let serving =
            Arc::new(DnsService { resolver, servers, permits: Arc::new(Semaphore::new(ASKED_MAX)) });
        let mut tasks = JoinSet::new();
        tasks.spawn(serving.clone().serve_datagrams(Arc::new(udp)));
        tasks.spawn(serving.serve_connections(tcp));
        Ok(DnsServer { address, _tasks: tasks })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the port is 53: only then can `resolv.conf` refer to it.
    #[must_use]
    pub fn is_default_port(&self) -> bool {
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
    // The same port for both protocols: `resolv.conf` has one address for both.
    let tcp = std::net::TcpListener::bind(udp.local_addr()?)?;
    udp.set_nonblocking(true)?;
    tcp.set_nonblocking(true)?;
    Ok((UdpSocket::from_std(udp)?, TcpListener::from_std(tcp)?))
}

struct DnsService {
    resolver: Arc<dyn DnsResolver>,
    servers: Vec<SocketAddr>,
    permits: Arc<Semaphore>,
}

impl DnsService {
    async fn serve_datagrams(self: Arc<Self>, socket: Arc<UdpSocket>) {
        let mut asking = JoinSet::new();
        let mut bytes = vec![0; DATAGRAM_MAX];
        loop {
            while asking.try_join_next().is_some() {}
            // The error belongs to an earlier reply (ICMP); continue with the next query.
            let Ok((length, from)) = socket.recv_from(&mut bytes).await else { continue };
            let query = &bytes[..length];
            match self.resolver.resolve(query, UDP_ROOM) {
                DnsOutcome::Drop => {}
                DnsOutcome::Reply(reply) => {
                    let _ = socket.send_to(&reply, from).await;
                }
                DnsOutcome::Forward => {
                    let Ok(place) = self.permits.clone().try_acquire_owned() else { continue };
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
        self.resolver.server_failure(query)
    }

    async fn serve_connections(self: Arc<Self>, listener: TcpListener) {
        let mut open = JoinSet::new();
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            while open.try_join_next().is_some() {}
            let Ok(place) = permits.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let serving = self.clone();
                    open.spawn(async move {
                        // The client handles a broken connection.
                        let _ = serving.serve_connection(stream).await;
                        drop(place);
                    });
                }
                // Most likely out of file descriptors: wait for connections to close.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn serve_connection(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let query = timeout(IDLE_MAX, receive(&mut stream)).await??;
            let reply = match self.resolver.resolve(&query, TCP_ROOM) {
                DnsOutcome::Drop => return Ok(()),
                DnsOutcome::Reply(reply) => Some(reply),
                DnsOutcome::Forward => self.ask_by_connection(&query).await,
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
        self.resolver.server_failure(query)
    }
}

async fn by_datagram(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A new source port per query makes spoofed replies hard, and a connected socket filters other senders.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut bytes = vec![0; DATAGRAM_MAX];
    loop {
        // Stray datagrams are skipped until the caller's timeout.
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

/// Same transaction ID, and the reply flag is set.
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

    /// Answers names starting with `o`, drops those starting with `i`. The first two bytes are the ID, the third has
    /// the reply flag.
    struct EchoResolver;

    impl DnsResolver for EchoResolver {
        fn resolve(&self, query: &[u8], room: usize) -> DnsOutcome {
            match query.get(12) {
                Some(b'o') => DnsOutcome::Reply(with(query, &format!("own {room}"))),
                Some(b'i') | None => DnsOutcome::Drop,
                _ => DnsOutcome::Forward,
            }
        }

        fn server_failure(&self, query: &[u8]) -> Option<Vec<u8>> {
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

    async fn nobody() -> SocketAddr {
        UdpSocket::bind((LOOPBACK, 0)).await.unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn own_names_are_told_and_others_asked_for() {
        let (other, _tasks) = other().await;
        let server = DnsServer::start(LOOPBACK, Arc::new(EchoResolver), vec![nobody().await, other]).unwrap();
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
        let server = DnsServer::start(LOOPBACK, Arc::new(EchoResolver), vec![nobody().await]).unwrap();
        assert_eq!(by_udp(server.address(), &query(1, "far")).await, "failed");
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        send(&mut stream, &query(1, "far")).await.unwrap();
        assert_eq!(words(&receive(&mut stream).await.unwrap()), "failed");
    }

    #[test]
    fn resolv_conf_is_parsed() {
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
            let host = HostResolvConf::read(text);
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
