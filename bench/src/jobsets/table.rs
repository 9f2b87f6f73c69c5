//! The figures as a table for people and as JSON for machines.

use std::fmt::Write as _;
use std::time::Duration;

use muster_tests::real::Disk;
use muster_tree::{Tree, tree};

use super::load::{PHASE_MAX, Row};
use super::planes::Who;
use crate::client::IN_FLIGHT;

/// The resolution of CPU time.
const TICK: Duration = Duration::from_millis(10);

/// A table: one block for a load and phase, one line for a controller; those of upstream end with how many times more
/// than ours they took.
pub fn text(rows: &[Row], disk: Disk, took: Duration) -> String {
    let disk = match disk {
        Disk::Synced => "etcd syncs every commit to disk",
        Disk::Unsynced => "etcd with --unsafe-no-fsync",
    };
    let mut text = format!(
        "jobsets: sent over HTTPS, {} at once; garbage collector, no Job controller; {disk}; {:.0} s in all\n",
        IN_FLIGHT,
        took.as_secs_f64()
    );
    let _ = writeln!(
        text,
        "\n  {:<12} {:<8} {:<17} {:>8} {:>7} {:>7} {:>8} {:>7} {:>9} {:>7}   {:>6} {:>6} {:>6} {:>6}   {:>6} {:>6}",
        "JobSets",
        "phase",
        "controller",
        "s",
        "writes",
        "events",
        "refused",
        "CPU s",
        "server s",
        "RSS MB",
        "s",
        "writes",
        "CPU",
        "RSS",
        "s",
        "CPU"
    );
    for row in rows {
        let _ = writeln!(text, "{}", line(row, rows));
    }
    text + "\n  s: until the last Job is as wanted. Writes, of them events, and CPU: until the controller is quiet again; server: \
            API server and etcd.\n  \
            The last columns: how many times more than `muster operator`, and than ours embedded (its CPU is that of its \
            server too,\n  and is compared with that of controller, API server and etcd)."
}

fn line(row: &Row, rows: &[Row]) -> String {
    let figures = format!(
        "  {:<12} {:<8} {:<17} {:>8} {:>7} {:>7} {:>8} {:>7.2} {:>9} {:>7.1}",
        sets(row),
        row.phase.name(),
        row.who,
        row.wall.map_or_else(|| format!(">{}", PHASE_MAX.as_secs()), |it| format!("{:.2}", it.as_secs_f64())),
        row.calls.writes,
        row.calls.events,
        row.calls.refused,
        row.cpu.as_secs_f64(),
        row.server_cpu.map_or_else(|| "-".to_owned(), |it| format!("{:.2}", it.as_secs_f64())),
        row.resident as f64 / 1e6,
    );
    let late =
        if row.wall.is_none() { format!("   not within {} s", PHASE_MAX.as_secs()) } else { String::new() };
    figures + &ratios(row, rows) + &late
}

/// How many times more than ours; nothing for ours.
fn ratios(row: &Row, rows: &[Row]) -> String {
    if [Who::OPERATOR, Who::EMBEDDED].contains(&row.who) {
        return String::new();
    }
    let of = |who: &str| rows.iter().find(|it| it.who == who && it.load == row.load && it.phase == row.phase);
    let mut text = String::from("  ");
    if let Some(ours) = of(Who::OPERATOR) {
        for ratio in [
            walls(row, ours),
            times(row.calls.writes as f64, ours.calls.writes as f64),
            times(seconds(row.cpu), seconds(ours.cpu)),
            times(row.resident as f64, ours.resident as f64),
        ] {
            let _ = write!(text, " {ratio:>6}");
        }
    }
    if let Some(ours) = of(Who::EMBEDDED) {
        let all = row.cpu + row.server_cpu.unwrap_or_default();
        let _ = write!(text, "   {:>6} {:>6}", walls(row, ours), times(seconds(all), seconds(ours.cpu)));
    }
    text
}

fn walls(row: &Row, ours: &Row) -> String {
    row.wall
        .zip(ours.wall)
        .map_or_else(String::new, |(its, ours)| times(its.as_secs_f64(), ours.as_secs_f64()))
}

fn times(its: f64, ours: f64) -> String {
    if ours > 0.0 { format!("{:.1}x", its / ours) } else { String::new() }
}

/// Less than a tick is counted as one.
fn seconds(cpu: Duration) -> f64 {
    cpu.max(TICK).as_secs_f64()
}

fn sets(row: &Row) -> String {
    format!("{} of {}", row.load.sets, row.load.jobs_each)
}

/// The same figures, one object for each line.
pub fn json(rows: &[Row]) -> String {
    let one = |row: &Row| {
        let wall = row.wall.map_or(Tree::Null, |it| tree!(it.as_secs_f64()));
        let server = row.server_cpu.map_or(Tree::Null, |it| tree!(it.as_secs_f64()));
        tree!({
            "controller": row.who, "sets": row.load.sets as i64, "jobsEach": row.load.jobs_each as i64,
            "phase": row.phase.name(), "seconds": wall, "writes": row.calls.writes as i64,
            "events": row.calls.events as i64, "refused": row.calls.refused as i64,
            "cpuSeconds": row.cpu.as_secs_f64(), "serverCpuSeconds": server,
            "residentBytes": row.resident as i64, "callsOfAll": row.count.tree(),
        })
    };
    Tree::list(rows.iter().map(one)).to_string()
}
