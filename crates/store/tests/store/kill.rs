//! `kill -9` in the middle of 200 concurrent writers: what was acknowledged is there afterwards.
//!
//! The writers run in a child process, this test binary again, and print every acknowledgement to their standard
//! output. `MUSTER_KILLS` sets the number of kills.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use muster_store::{Key, Store, StoreOptions};

use crate::support::{Hand, create, delete, key, update, value, write};

const WRITERS: i64 = 200;
const KILLS_DEFAULT: u64 = 3;
/// Acknowledgements before a child is killed, at least.
const ACKS_MIN: u64 = 300;
/// Environment variable for the child: the data directory.
const DIRECTORY: &str = "MUSTER_KILL_DIRECTORY";
/// Environment variable for the child: write snapshots continuously.
const ROLLING: &str = "MUSTER_KILL_ROLLING";
/// Every so many steps a writer deletes its object.
const DELETE_EVERY: i64 = 7;

/// The last acknowledgement of a writer: its step and revision.
type Acknowledged = BTreeMap<i64, (i64, u64)>;

fn options(rolling: bool) -> StoreOptions {
    let log_bytes_min = if rolling { 20_000 } else { 32 << 20 };
    StoreOptions { log_bytes_min, ..StoreOptions::default() }
}

fn open(directory: &Path, rolling: bool) -> Store {
    Store::open(directory, options(rolling), Arc::new(Hand::default())).unwrap()
}

fn its_key(writer: i64) -> Key {
    key("pods", "n", &format!("w{writer}"))
}

/// A deleted object cannot record the step, so a second object written with it does.
fn its_memo(writer: i64) -> Key {
    key("memos", "n", &format!("w{writer}"))
}

/// What a writer's object holds after a step.
fn state_after(step: i64) -> Option<i64> {
    (step > 0 && step % DELETE_EVERY != 0).then_some(step)
}

#[test]
fn acknowledged_writes_survive_kills() {
    let kills = std::env::var("MUSTER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS_DEFAULT);
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::new();
    for kill in 0..kills {
        let rolling = kill % 2 == 1;
        let before = newest(&acknowledged);
        run_and_kill(directory.path(), rolling, ACKS_MIN + kill * 137 % 1_000, &mut acknowledged);
        assert!(newest(&acknowledged) > before, "revisions go on upward");
        check(directory.path(), rolling, &mut acknowledged);
    }
}

fn newest(acknowledged: &Acknowledged) -> u64 {
    acknowledged.values().map(|(_, revision)| *revision).max().unwrap_or(0)
}

/// Starts the writers, kills them after this many acknowledgements, and collects the acknowledgements.
fn run_and_kill(directory: &Path, rolling: bool, acks: u64, acknowledged: &mut Acknowledged) {
    let mut child = start(directory, rolling);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut left = acks;
    // What was written into the pipe before the kill counts, too: so read to the end.
    for line in lines.map_while(Result::ok) {
        let Some((writer, step, revision)) = parse(&line) else {
            continue;
        };
        acknowledged.insert(writer, (step, revision));
        left = left.saturating_sub(1);
        if left == 0 {
            child.kill().unwrap();
        }
    }
    assert_eq!(left, 0, "the writers ended by themselves: {:?}", child.wait());
    child.wait().unwrap();
}

fn start(directory: &Path, rolling: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::the_writers", "--nocapture", "--ignored"]).env(DIRECTORY, directory);
    if rolling {
        command.env(ROLLING, "1");
    }
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads `ack <writer> <step> <revision>.`; the full stop shows that the line is whole.
fn parse(line: &str) -> Option<(i64, i64, u64)> {
    let rest = line.split("ack ").nth(1)?.strip_suffix('.')?;
    let mut numbers = rest.split(' ');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Each object is in the state that was acknowledged last, or one step further: a write may have become durable
/// just before its acknowledgement would have been sent.
fn check(directory: &Path, rolling: bool, acknowledged: &mut Acknowledged) {
    let store = open(directory, rolling);
    let told = newest(acknowledged);
    assert!(store.revision() >= told);
    for (writer, (step, revision)) in acknowledged {
        let now = store.get(&its_key(*writer));
        let holds = now.as_ref().map(value);
        let next = *step + 1;
        if holds == state_after(next) {
            assert!(now.as_ref().is_none_or(|object| object.revision > *revision), "writer {writer}");
            *revision = now.map_or(*revision, |object| object.revision);
            *step = next;
        } else {
            assert_eq!(holds, state_after(*step), "writer {writer} after step {step}");
            assert!(now.is_none_or(|object| object.revision == *revision), "writer {writer}");
        }
        let memo = store.get(&its_memo(*writer));
        assert_eq!(memo.as_ref().map(value), Some(*step), "both writes of a transaction or none");
    }
    watch_resumes(&store, told, rolling);
}

/// A watcher of the life before goes on without a gap; only a snapshot may have taken its place in the log away.
fn watch_resumes(store: &Store, from: u64, rolling: bool) {
    match store.watch("pods", from) {
        Ok(mut cursor) => {
            let revisions: Vec<u64> = cursor.next(usize::MAX).unwrap().iter().map(|r| r.revision).collect();
            // Each step is one transaction of a memo and a pod.
            assert_eq!(revisions, (from + 2..=store.revision()).step_by(2).collect::<Vec<_>>());
        }
        Err(expired) => assert!(rolling && expired.oldest > from, "{expired}"),
    }
}

/// The child: not a test, and not run as one.
#[test]
#[ignore = "the child process of the test above"]
fn the_writers() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let store = open(Path::new(&directory), std::env::var(ROLLING).is_ok());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || write_on(store, writer));
        }
    });
}

/// Takes step after step, for ever.
fn write_on(store: &Store, writer: i64) {
    let key = its_key(writer);
    let memo = its_memo(writer);
    let mut step = store.get(&memo).as_ref().map_or(0, value);
    loop {
        step += 1;
        let saw = store.newest(&key);
        let change = match (state_after(step), &saw) {
            (Some(to), None) => create(&key, to),
            (Some(to), Some(old)) => update(&key, old.revision, to),
            (None, Some(old)) => delete(&key, old.revision, value(old)),
            (None, None) => panic!("writer {writer} lost its object before step {step}"),
        };
        let note = match store.newest(&memo) {
            Some(old) => update(&memo, old.revision, step),
            None => create(&memo, step),
        };
        let revision = write(store, vec![note, change]).unwrap()[1].revision;
        #[expect(clippy::print_stdout, reason = "this is how the child tells its parent")]
        {
            println!("ack {writer} {step} {revision}.");
        }
    }
}
