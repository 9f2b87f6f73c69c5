//! The figures as a table for people and as JSON for machines.

use std::fmt::Write as _;
use std::time::Duration;

use muster_tree::{Tree, tree};

use super::Server;
use super::load::{Load, Row};

/// The resolution of CPU time, in seconds.
const TICK: f64 = 0.01;

/// A table: one block for a kind of request, one line for a server; ours end with how many times better than the real
/// one they are.
pub fn text(servers: &[Server], load: &Load, took: Duration) -> String {
    let mut text = format!(
        "api: one client over HTTPS, {} pods, {} watchers; {:.0} s in all\n",
        load.pods,
        load.watchers,
        took.as_secs_f64()
    );
    for server in servers {
        let _ = writeln!(text, "  {}: {}", server.name, server.how);
    }
    let _ = writeln!(
        text,
        "\n  {:<24} {:>2} {:<16} {:>9} {:>9} {:>9} {:>11} {:>11} {:>7}   {:>6} {:>6} {:>6}",
        "request",
        "at",
        "server",
        "per s",
        "p50 ms",
        "p99 ms",
        "CPU s/1,000",
        "own CPU s",
        "RSS MB",
        "faster",
        "CPU",
        "RSS"
    );
    let real = servers.iter().find(|server| server.name.starts_with("kube"));
    for at in 0..servers.first().map_or(0, |server| server.rows.len()) {
        for server in servers {
            let against = real.filter(|real| real.name != server.name).map(|real| &real.rows[at]);
            let _ = writeln!(text, "{}", line(&server.rows[at], server.name, against));
        }
    }
    text + "\n  at: requests under way at once. CPU s/1,000: of the server, for 1,000 requests or events; own: of this client.\n  \
            The last three columns: times more per second, times less CPU, times less memory than the real one.\n  \
            An event's time runs from sending its pod to a watcher having it; per s counts what all watchers got."
}

fn line(row: &Row, server: &str, real: Option<&Row>) -> String {
    let ratio = |of: f64| format!("{of:.1}x");
    let ratios = real.map_or_else(<[String; 3]>::default, |real| {
        [
            ratio(per_second(row) / per_second(real)),
            // Less than a tick is counted as one.
            ratio(cpu(real) / cpu(row).max(TICK * 1e3 / row.done as f64)),
            ratio(real.resident as f64 / row.resident as f64),
        ]
    });
    format!(
        "  {:<24} {:>2} {:<16} {:>9.0} {:>9.2} {:>9.2} {:>11.3} {:>11.3} {:>7.1}   {:>6} {:>6} {:>6}",
        row.what,
        row.in_flight,
        server,
        per_second(row),
        millis(row, 50),
        millis(row, 99),
        cpu(row),
        row.client_cpu.as_secs_f64() * 1e3 / row.done as f64,
        row.resident as f64 / 1e6,
        ratios[0],
        ratios[1],
        ratios[2],
    )
}

/// The same figures, one object for each row of each server.
pub fn json(servers: &[Server]) -> String {
    let rows = servers.iter().flat_map(|server| server.rows.iter().map(move |row| (server, row)));
    let rows = rows.map(|(server, row)| {
        tree!({
            "server": server.name, "how": server.how, "request": row.what, "inFlight": row.in_flight as i64,
            "done": row.done as i64, "perSecond": per_second(row), "p50Millis": millis(row, 50),
            "p99Millis": millis(row, 99), "serverCpuSecondsPer1000": cpu(row),
            "clientCpuSecondsPer1000": row.client_cpu.as_secs_f64() * 1e3 / row.done as f64,
            "residentBytes": row.resident as i64,
        })
    });
    Tree::list(rows).to_string()
}

fn per_second(row: &Row) -> f64 {
    row.done as f64 / row.wall.as_secs_f64()
}

/// CPU seconds of the server for 1,000.
fn cpu(row: &Row) -> f64 {
    row.server_cpu.as_secs_f64() * 1e3 / row.done as f64
}

/// A percentile in milliseconds.
fn millis(row: &Row, percent: usize) -> f64 {
    let at = (row.latencies.len() * percent / 100).min(row.latencies.len().saturating_sub(1));
    row.latencies.get(at).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
}
