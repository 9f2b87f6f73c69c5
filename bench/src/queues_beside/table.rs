//! The figures as a table for people and as JSON for machines.

use std::fmt::Write as _;
use std::time::Duration;

use muster_tests::real::Disk;
use muster_tree::{Tree, tree};

use super::planes::Who;
use super::play::{RUN_MAX, Row, WRITTEN};
use crate::measure::{busy, share};

/// A table: one block for a load, one line for each; those of upstream end with how many times more than ours they took.
pub fn text(rows: &[Row], disk: Disk) -> String {
    let disk = match disk {
        Disk::Synced => "etcd syncs every commit to disk",
        Disk::Unsynced => "etcd with --unsafe-no-fsync",
    };
    let mut text = format!(
        "queues on a real API server: 30 queues in 5 cohorts, simulated jobs; {disk}; load average of the machine {}\n\n",
        busy()
    );
    let _ = writeln!(
        text,
        "  {:<17} {:>8} {:>7} {:>7} {:>7} {:>13} {:>13} {:>13} {:>7} {:>7} {:>8} {:>7}   {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "",
        "s",
        "adm/s",
        "evicted",
        "writes",
        "small p50 p99",
        "medium",
        "large",
        "late s",
        "CPU s",
        "server s",
        "RSS MB",
        "s",
        "small",
        "medium",
        "large",
        "CPU",
        "RSS"
    );
    let mut block = "";
    for row in rows {
        if block != row.load {
            block = row.load;
            let (count, floor) = (row.workloads, row.floor.as_secs_f64());
            let _ =
                writeln!(text, "  {count} Workloads, {block}; the quota allows no less than {floor:.1} s");
        }
        let _ = writeln!(text, "{}", line(row, rows));
    }
    text + "\n  s: from the first Workload to the end of the last. adm/s: Workloads in that time. evicted: admissions taken back. \
            writes: of the controller for each Workload.\n  \
            small, medium, large: seconds from the creation of a Workload to its first admission. late: how much later than \
            wanted the last was made.\n  \
            CPU: of the controller until it is quiet; server: API server and etcd. The last columns: how many times more than \
            `muster operator`, waits by their means."
}

/// The row that was measured last.
pub fn newest(rows: &[Row]) -> String {
    rows.last().map_or_else(String::new, |row| line(row, rows))
}

fn line(row: &Row, rows: &[Row]) -> String {
    let wall =
        row.wall.map_or_else(|| format!(">{}", RUN_MAX.as_secs()), |it| format!("{:.1}", it.as_secs_f64()));
    let mut text = format!(
        "    {:<15} {wall:>8} {:>7.0} {:>7} {:>7.2}",
        row.who,
        row.rate(),
        row.counts.releases,
        row.writes_each(),
    );
    for (_, waited) in &row.waits {
        let seconds = |part| share(waited, part).as_secs_f64();
        let _ = write!(text, " {:>6.2} {:>6.2}", seconds(0.5), seconds(0.99));
    }
    let _ = write!(
        text,
        " {:>7.1} {:>7.2} {:>8.2} {:>7.1}   {}",
        row.late.as_secs_f64(),
        row.cpu.as_secs_f64(),
        row.server_cpu.as_secs_f64(),
        row.resident as f64 / 1e6,
        ratios(row, rows),
    );
    if row.wall.is_none() {
        let _ = write!(text, " {} of {} finished", row.counts.finished, row.workloads);
    }
    let (by, refused) = row.count.writes_by(&WRITTEN);
    let each = |count: u64| count as f64 / row.workloads as f64;
    let by: Vec<String> =
        by.iter().map(|(resource, count)| format!("{resource} {:.2}", each(*count))).collect();
    text + &format!("\n      written by all for each: {}; refused {:.2}", by.join(", "), each(refused))
}

/// How many times more than ours; nothing for ours.
fn ratios(row: &Row, rows: &[Row]) -> String {
    let ours = rows.iter().find(|it| it.who == Who::OPERATOR && it.load == row.load);
    let Some(ours) = ours.filter(|_| row.who != Who::OPERATOR) else { return String::new() };
    let times = |its: f64, ours: f64| if ours > 0.0 { format!("{:.1}x", its / ours) } else { String::new() };
    let wall = |row: &Row| row.wall.unwrap_or_default().as_secs_f64();
    let mut text = format!("{:>6}", times(wall(row), wall(ours)));
    for ((_, its), (_, ours)) in row.waits.iter().zip(&ours.waits) {
        let _ = write!(text, " {:>6}", times(mean(its), mean(ours)));
    }
    let cpu = times(row.cpu.as_secs_f64(), ours.cpu.as_secs_f64());
    let memory = times(row.resident as f64, ours.resident as f64);
    text + &format!(" {cpu:>6} {memory:>6}")
}

fn mean(all: &[Duration]) -> f64 {
    if all.is_empty() { 0.0 } else { all.iter().sum::<Duration>().as_secs_f64() / all.len() as f64 }
}

/// The same figures, one object for each line.
pub fn json(rows: &[Row]) -> String {
    let waited = |(class, all): &(&'static str, Vec<Duration>)| {
        let seconds = |part| share(all, part).as_secs_f64();
        tree!({"class": *class, "mean": mean(all), "p50": seconds(0.5), "p99": seconds(0.99),
            "max": seconds(1.0)})
    };
    let one = |row: &Row| {
        tree!({
            "controller": row.who, "load": row.load, "workloads": row.workloads as i64,
            "floorSeconds": row.floor.as_secs_f64(),
            "seconds": row.wall.map_or(Tree::Null, |it| tree!(it.as_secs_f64())),
            "admissionsPerSecond": row.rate(), "admissions": row.counts.admissions as i64,
            "releases": row.counts.releases as i64, "overtaken": row.counts.overtaken as i64,
            "writesEach": row.writes_each(), "lateSeconds": row.late.as_secs_f64(),
            "waitSeconds": Tree::list(row.waits.iter().map(waited)),
            "cpuSeconds": row.cpu.as_secs_f64(), "serverCpuSeconds": row.server_cpu.as_secs_f64(),
            "residentBytes": row.resident as i64, "callsOfAll": row.count.tree_of(&WRITTEN),
        })
    };
    tree!({"load": busy(), "rows": Tree::list(rows.iter().map(one))}).to_string()
}
