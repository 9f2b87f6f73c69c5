//! The DNS zone of the cluster, updated while queries are answered.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use muster_tree::{Text, Tree};

use super::{Answer, Names, answer};

/// The current records. They are built by the first query after an update, so that a burst of updates costs one
/// build.
#[derive(Debug, Default)]
pub struct Book {
    server: Option<IpAddr>,
    source: Mutex<Page>,
}

#[derive(Debug, Default)]
struct Page {
    services: Vec<Tree>,
    pods: Vec<(Tree, Text)>,
    names: Option<Arc<Names>>,
}

impl Book {
    /// An empty zone; `server` is the IP of the API server, if known.
    #[must_use]
    pub fn new(server: Option<IpAddr>) -> Book {
        Book { server, ..Book::default() }
    }

    /// Replaces the Services and the pods with their IPs.
    pub fn set(&self, services: Vec<Tree>, pods: Vec<(Tree, Text)>) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Page { services, pods, names: None };
    }

    /// Answers a query; see [`answer`].
    #[must_use]
    pub fn answer(&self, query: &[u8], room: usize) -> Answer {
        let names = {
            let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
            let built = source.names.clone();
            built.unwrap_or_else(|| {
                let built = Arc::new(Names::of(&source.services, &source.pods, self.server));
                source.names = Some(built.clone());
                built
            })
        };
        answer(query, &names, room)
    }
}
