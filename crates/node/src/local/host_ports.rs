//! Host ports of pods without a network namespace.
//!
//! Such pods share the ports of the host, and many programs bind all addresses: two jobs with the same default port
//! would collide. Each pod port is therefore mapped to a free host port.
//!
//! # Guarantees
//!
//! - The mapping of a pod port is stable, also across restarts of the kubelet: it is stored in the pod directory and
//!   removed with it.
//! - A mapped host port maps to itself.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};

use muster_process::PodDirs;

/// The file in the pod directory: one line `<pod port> <host port>` per mapping.
const FILE: &str = "ports";

/// The port mappings below a root directory.
#[derive(Debug, Clone)]
pub struct HostPorts {
    layout: PodDirs,
}

impl HostPorts {
    /// Uses the pod directories of `layout`.
    #[must_use]
    pub fn new(layout: PodDirs) -> HostPorts {
        HostPorts { layout }
    }

    /// The host port of a pod port; allocated at the first call.
    ///
    /// # Errors
    /// No port is free, or the mapping cannot be written.
    pub fn of(&self, pod: &str, port: u16) -> io::Result<u16> {
        let path = self.layout.pod(pod).join(FILE);
        let known = read(&fs::read_to_string(&path).unwrap_or_default());
        if let Some((_, host_port)) =
            known.iter().find(|(wanted, host_port)| *wanted == port || *host_port == port)
        {
            return Ok(*host_port);
        }
        // The socket is closed at once: the pod binds the port in a moment, and the kernel does not reuse an
        // ephemeral port soon.
        let host_port = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr()?.port();
        fs::create_dir_all(self.layout.pod(pod))?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.write_all(format!("{port} {host_port}\n").as_bytes())?;
        Ok(host_port)
    }
}

fn read(text: &str) -> Vec<(u16, u16)> {
    let line = |line: &str| {
        let (wanted, host_port) = line.split_once(' ')?;
        Some((wanted.parse().ok()?, host_port.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_port_is_allocated_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let ports = || HostPorts::new(PodDirs::new(folder.path().to_owned()));
        let (one, other) = (ports().of("a", 29_500).unwrap(), ports().of("b", 29_500).unwrap());
        assert_ne!(one, other, "two pods, two ports");
        assert_eq!(ports().of("a", 29_500).unwrap(), one, "the same after a restart");
        assert_eq!(ports().of("a", one).unwrap(), one, "what stands for another stays");
        assert_ne!(ports().of("a", 29_501).unwrap(), one, "another port of the same pod");
        drop(TcpListener::bind((Ipv4Addr::LOCALHOST, one)).expect("it is free"));
    }
}
