//! API calls, as the API server counts them, and for an embedded controller as it counts them itself.
//!
//! The metrics of a server do not name the client. Requests of the garbage collector can be separated all the same: it alone reads
//! Jobs and JobSets one by one (both controllers have caches), and it alone patches Jobs during a restart.

use std::collections::BTreeMap;

use muster_tree::{Tree, tree};

use super::load::Phase;

/// What a JobSet controller writes.
const WRITTEN: [&str; 4] = ["jobsets", "jobs", "services", "events"];
const READS: [&str; 3] = ["GET", "LIST", "WATCH"];
const OF_SERVER: &str = "apiserver_request_total{";
const OF_CONTROLLERS: &str = "muster_controller_calls_total{";
/// Refusals are counted without their kinds where the controller is embedded.
const REFUSALS: &str = "muster_controller_refusals_total ";

/// What kind of call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    verb: String,
    resource: String,
    /// Whether it concerns the status.
    status: bool,
    refused: bool,
}

/// How many calls there were of each kind.
#[derive(Clone, Default)]
pub struct Count {
    calls: BTreeMap<Kind, u64>,
    refusals: u64,
}

/// The calls of one controller in one phase.
#[derive(Clone, Copy)]
pub struct Calls {
    /// All that it wrote.
    pub writes: u64,
    /// Those that were Events.
    pub events: u64,
    /// Those that were refused.
    pub refused: u64,
}

impl Count {
    /// Of the metrics of a kube-apiserver.
    pub fn of_server(metrics: &str) -> Count {
        let mut count = Count::default();
        for line in metrics.lines().filter(|line| line.starts_with(OF_SERVER)) {
            let verb = label(line, ",verb=\"").to_owned();
            let refused = label(line, "code=\"").parse::<u16>().is_ok_and(|code| code >= 400);
            count.add(line, verb, label(line, "subresource=\"") == "status", refused);
        }
        count
    }

    /// Of the metrics of our own server about its controllers.
    pub fn of_controllers(metrics: &str) -> Count {
        let mut count = Count::default();
        for line in metrics.lines() {
            if let Some(number) = line.strip_prefix(REFUSALS) {
                count.refusals = number.trim().parse().unwrap_or(0);
            }
            if line.starts_with(OF_CONTROLLERS) {
                let (verb, status) = match label(line, "verb=\"") {
                    "create" => ("POST", false),
                    "get" => ("GET", false),
                    "delete" => ("DELETE", false),
                    "status" => ("PATCH", true),
                    _ => ("PATCH", false),
                };
                count.add(line, verb.to_owned(), status, false);
            }
        }
        count
    }

    fn add(&mut self, line: &str, verb: String, status: bool, refused: bool) {
        let resource = label(line, ",resource=\"").to_owned();
        let number = line.rsplit(' ').next().and_then(|it| it.parse::<f64>().ok()).unwrap_or(0.0);
        *self.calls.entry(Kind { verb, resource, status, refused }).or_default() += number as u64;
    }

    pub fn since(&self, before: &Count) -> Count {
        let calls = self.calls.iter().map(|(kind, count)| {
            (kind.clone(), count.saturating_sub(before.calls.get(kind).copied().unwrap_or(0)))
        });
        Count {
            calls: calls.filter(|(_, count)| *count > 0).collect(),
            refusals: self.refusals.saturating_sub(before.refusals),
        }
    }

    /// Those of the JobSet controller, without so many of our own.
    pub fn calls(&self, phase: Phase, own: u64) -> Calls {
        let its = || self.calls.iter().filter(|(kind, _)| kind.is_controllers(phase));
        let sum =
            |of: fn(&Kind) -> bool| its().filter(|(kind, _)| of(kind)).map(|(_, count)| count).sum::<u64>();
        Calls {
            writes: sum(|_| true).saturating_sub(own),
            events: sum(|kind| kind.resource == "events"),
            refused: sum(|kind| kind.refused) + self.refusals,
        }
    }

    /// Writes of these resources by all clients.
    pub fn writes(&self, resources: &[&str]) -> u64 {
        let those = self.calls.iter().filter(|(kind, _)| {
            resources.contains(&kind.resource.as_str()) && !READS.contains(&kind.verb.as_str())
        });
        those.map(|(_, count)| count).sum()
    }

    /// Writes of each of these resources by all clients, and the rejected ones of all.
    pub fn writes_by(&self, resources: &[&'static str]) -> (Vec<(&'static str, u64)>, u64) {
        let by = resources.iter().map(|it| (*it, self.writes(&[*it]))).filter(|(_, count)| *count > 0);
        let refused = self.calls.iter().filter(|(kind, _)| {
            kind.refused
                && resources.contains(&kind.resource.as_str())
                && !READS.contains(&kind.verb.as_str())
        });
        (by.collect(), refused.map(|(_, count)| count).sum())
    }

    /// All requests by all clients for resources that a JobSet controller writes, by verb and resource.
    pub fn tree(&self) -> Tree {
        self.tree_of(&WRITTEN)
    }

    /// All requests by all clients for these resources, by verb and resource.
    pub fn tree_of(&self, resources: &[&str]) -> Tree {
        let one = |(kind, count): (&Kind, &u64)| {
            tree!({"verb": kind.verb.as_str(), "resource": kind.resource.as_str(), "status": kind.status,
                "refused": kind.refused, "count": *count as i64})
        };
        let about = self.calls.iter().filter(|(kind, _)| resources.contains(&kind.resource.as_str()));
        Tree::list(about.map(one))
    }
}

impl Kind {
    fn is_controllers(&self, phase: Phase) -> bool {
        let collectors =
            phase == Phase::Restart && self.verb == "PATCH" && self.resource == "jobs" && !self.status;
        WRITTEN.contains(&self.resource.as_str()) && !READS.contains(&self.verb.as_str()) && !collectors
    }
}

/// The value after this beginning of a label.
fn label<'a>(line: &'a str, begin: &str) -> &'a str {
    let rest = line.find(begin).map_or("", |at| &line[at + begin.len()..]);
    rest.split('"').next().unwrap_or_default()
}
