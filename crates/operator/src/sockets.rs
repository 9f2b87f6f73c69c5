//! Sockets that others reach.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Listens there. All addresses of both families, `[::]`, are those of IPv4 alone on a machine without IPv6.
///
/// # Errors
/// The address cannot be used.
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
