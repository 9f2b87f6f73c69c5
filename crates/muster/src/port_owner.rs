//! Finds the process that listens on a port, in `/proc`, so that the error about a port in use can name it.

use std::fs;
use std::net::SocketAddr;

/// The code of `TCP_LISTEN` in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The process that listens on the port of this address, as `name (pid 1)`. `None` if the process belongs to another
/// user: its file descriptors are not readable then.
#[must_use]
pub fn listening_process(address: SocketAddr) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let text: String = tables.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let inodes = listening_inodes(&text, address.port());
    let pid = pids().find(|pid| holds(pid, &inodes))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("{} (pid {pid})", name.trim()))
}

fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = rows.filter(|row| row.len() > 9 && row[1].ends_with(&wanted) && row[3] == LISTENING);
    listening.map(|row| format!("socket:[{}]", row[9])).collect()
}

fn pids() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
}

fn holds(pid: &str, inodes: &[String]) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.any(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_find_ourselves() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let who = listening_process(listener.local_addr().unwrap()).unwrap();
        assert!(who.contains(&format!("(pid {})", std::process::id())), "{who}");
    }
}
