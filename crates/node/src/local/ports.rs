//! Ports of this machine that stand for ports of pods.
//!
//! Pods without a network of their own share the machine's ports, and programs that are told one often take it on all
//! addresses: two jobs that meet at their usual port would get in each other's way.
//!
//! # Invariants
//!
//! - The same port of the same pod is the same port of this machine each time, after a restart of the server, too: it is
//!   written down beside the pod, and goes with it.
//! - A port that stands for another stays what it is.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};

use muster_process::Layout;

/// The file in the folder of a pod: a line for each port, and the one that stands for it.
const FILE: &str = "ports";

/// The ports of pods whose folders are here.
#[derive(Debug, Clone)]
pub struct Ports {
    layout: Layout,
}

impl Ports {
    /// Those of the pods in these folders.
    #[must_use]
    pub fn new(layout: Layout) -> Ports {
        Ports { layout }
    }

    /// The port of this machine that stands for a port of this pod.
    ///
    /// # Errors
    /// There is none, or it cannot be written down.
    pub fn of(&self, pod: &str, port: u16) -> io::Result<u16> {
        let path = self.layout.pod(pod).join(FILE);
        let known = read(&fs::read_to_string(&path).unwrap_or_default());
        if let Some((_, given)) = known.iter().find(|(wanted, given)| *wanted == port || *given == port) {
            return Ok(*given);
        }
        // Given back at once: whoever is told it takes it in a moment, and the system offers it to nobody soon.
        let given = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr()?.port();
        fs::create_dir_all(self.layout.pod(pod))?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.write_all(format!("{port} {given}\n").as_bytes())?;
        Ok(given)
    }
}

fn read(text: &str) -> Vec<(u16, u16)> {
    let line = |line: &str| {
        let (wanted, given) = line.split_once(' ')?;
        Some((wanted.parse().ok()?, given.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let ports = || Ports::new(Layout::new(folder.path().to_owned()));
        let (one, other) = (ports().of("a", 29_500).unwrap(), ports().of("b", 29_500).unwrap());
        assert_ne!(one, other, "two pods, two ports");
        assert_eq!(ports().of("a", 29_500).unwrap(), one, "the same after a restart");
        assert_eq!(ports().of("a", one).unwrap(), one, "what stands for another stays");
        assert_ne!(ports().of("a", 29_501).unwrap(), one, "another port of the same pod");
        drop(TcpListener::bind((Ipv4Addr::LOCALHOST, one)).expect("it is free"));
    }
}
