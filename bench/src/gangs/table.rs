//! The figures as a table for people and as JSON for machines.

use std::fmt::Write as _;
use std::time::Duration;

use muster_tree::{Tree, tree};

use super::play::{Pass, Row};
use crate::measure::{busy, share};

/// A table: one block for a question, one line for a scene.
pub fn text(rows: &[Row]) -> String {
    let mut text =
        format!("gangs: the scheduler in memory, one thread; load average of the machine {}\n", busy());
    let _ = writeln!(
        text,
        "\n  {:<34} {:>6} {:>6} {:>6} {:>7} {:>9} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>7} {:>7} {:>7}  {:>6}",
        "",
        "nodes",
        "gangs",
        "pods",
        "feed µs",
        "pods/s",
        "p50 ms",
        "p99 ms",
        "wall p50",
        "wall p99",
        "CPU s",
        "placed",
        "evicted",
        "scans",
        "ranked",
        "growth"
    );
    let mut block = None;
    for row in rows {
        if block.replace(row.scene.block) != Some(row.scene.block) {
            let _ = writeln!(text, "  {}", row.scene.block.name());
        }
        let _ = writeln!(text, "{}", line(row, rows));
    }
    text + "\n  gangs: those that come together. pods: of one gang. feed: telling the scheduler of a pod, its manifest read. \
            pods/s, p50 and p99: of decisions, by CPU time,\n  \
            the last two of one gang; wall: the same on the clock. placed, evicted, scans (every node looked at for a pod) and \
            ranked (nodes put in order for a\n  shape): in all rounds. growth: CPU time for a pod, against the first line of its kind."
}

fn line(row: &Row, rows: &[Row]) -> String {
    let scene = &row.scene;
    let fed = (scene.pods() * scene.rounds) as f64;
    format!(
        "    {:<32} {:>6} {:>6} {:>6} {:>7.2} {:>9.0} {:>8.3} {:>8.3} {:>9.3} {:>9.3} {:>8.3} {:>8} {:>7} {:>7} {:>7}  {:>6}",
        what(row),
        scene.nodes,
        scene.gangs,
        scene.each,
        row.feed.as_secs_f64() * 1e6 / fed,
        1e6 / row.micros_per_pod(),
        millis(share(&row.cpu, 0.5)),
        millis(share(&row.cpu, 0.99)),
        millis(share(&row.wall, 0.5)),
        millis(share(&row.wall, 0.99)),
        row.cpu.iter().sum::<Duration>().as_secs_f64(),
        row.placed,
        row.evicted,
        row.stats.scans,
        row.stats.rankings,
        growth(row, rows),
    )
}

fn what(row: &Row) -> String {
    let pass = match row.pass {
        Pass::Only => "",
        Pass::Choosing => ": who goes",
        Pass::Placing => ": after that",
    };
    format!("{}{pass}", row.scene.what)
}

/// CPU time for a pod, against the first line that asks the same.
fn growth(row: &Row, rows: &[Row]) -> String {
    let like = |other: &&Row| (other.scene.block, other.scene.what) == (row.scene.block, row.scene.what);
    match rows.iter().find(like) {
        Some(first) if row.scene.block.grows() => {
            format!("{:.2}x", row.micros_per_pod() / first.micros_per_pod())
        }
        _ => String::new(),
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The same figures, one object for each line.
pub fn json(rows: &[Row]) -> String {
    let one = |row: &Row| {
        let scene = &row.scene;
        let both =
            |all: &[Duration]| tree!({"p50": millis(share(all, 0.5)), "p99": millis(share(all, 0.99))});
        let sum = |all: &[Duration]| all.iter().sum::<Duration>().as_secs_f64();
        tree!({
            "block": scene.block.name(), "scene": what(row), "nodes": scene.nodes as i64,
            "gangs": scene.gangs as i64, "podsEach": scene.each as i64, "rounds": scene.rounds as i64,
            "decisions": row.cpu.len() as i64,
            "feedMicrosPerPod": row.feed.as_secs_f64() * 1e6 / (scene.pods() * scene.rounds) as f64,
            "podsPerCpuSecond": 1e6 / row.micros_per_pod(),
            "gangCpuMillis": both(&row.cpu), "gangWallMillis": both(&row.wall),
            "cpuSeconds": sum(&row.cpu), "wallSeconds": sum(&row.wall),
            "placed": row.placed as i64, "refused": row.refused as i64, "evicted": row.evicted as i64,
            "scans": row.stats.scans as i64, "rankings": row.stats.rankings as i64,
        })
    };
    tree!({"load": busy(), "rows": Tree::list(rows.iter().map(one))}).to_string()
}
