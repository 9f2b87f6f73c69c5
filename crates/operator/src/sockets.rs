//! Listening sockets that accept IPv4 and IPv6.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Binds a listening socket. `[::]` falls back to `0.0.0.0` on a host without IPv6.
///
/// # Errors
/// The address cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).or_else(|error| match address.ip() {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).map_err(|_| error)
        }
        _ => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn all_addresses_are_reached_by_the_old_family_too() {
        let listener = bind("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).unwrap_err();
    }
}
