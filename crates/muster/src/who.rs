//! Who has a port: read from the process table, so that a refusal can name a process.

use std::fs;
use std::net::SocketAddr;

/// The state word of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The process that listens on this address' port, as `name (pid 1)`. `None` when it cannot be found out.
#[must_use]
pub fn listens_on(address: SocketAddr) -> Option<String> {
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
        let who = listens_on(listener.local_addr().unwrap()).unwrap();
        assert!(who.contains(&format!("(pid {})", std::process::id())), "{who}");
    }
}
