//! Names that change while they are asked for.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use muster_tree::{Text, Tree};

use super::{Answer, Names, answer};

/// The names of now. They are made when somebody asks: many changes cost no more than one.
#[derive(Debug, Default)]
pub struct Book {
    server: Option<IpAddr>,
    page: Mutex<Page>,
}

#[derive(Debug, Default)]
struct Page {
    services: Vec<Tree>,
    pods: Vec<(Tree, Text)>,
    names: Option<Arc<Names>>,
}

impl Book {
    /// An empty book of a cluster whose API server is at this address, where that is known.
    #[must_use]
    pub fn new(server: Option<IpAddr>) -> Book {
        Book { server, ..Book::default() }
    }

    /// These are all Services now, and all pods with their addresses.
    pub fn set(&self, services: Vec<Tree>, pods: Vec<(Tree, Text)>) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Page { services, pods, names: None };
    }

    /// Answers a query; see [`answer`].
    #[must_use]
    pub fn answer(&self, query: &[u8], room: usize) -> Answer {
        let names = {
            let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
            let made = page.names.clone();
            made.unwrap_or_else(|| {
                let made = Arc::new(Names::of(&page.services, &page.pods, self.server));
                page.names = Some(made.clone());
                made
            })
        };
        answer(query, &names, room)
    }
}
