//! What tests of admission are made of.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_tree::{Text, Tree, literal};

use super::{Asked, Live, Settings};

/// The namespace of everything here.
pub static NAMESPACE: Text = literal!("n");

/// Other objects that tests put there; nothing, by default.
#[derive(Default)]
pub struct Nothing {
    pub settings: Settings,
    pub volume_claims: BTreeMap<String, Tree>,
    pub nodes: BTreeMap<String, Tree>,
    pub pods: Vec<Tree>,
    /// When set, every look fails with these words.
    pub broken: Option<&'static str>,
}

impl Nothing {
    fn whole(&self) -> Result<(), String> {
        self.broken.map_or(Ok(()), |words| Err(words.to_owned()))
    }
}

impl Live for Nothing {
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        assert_eq!(namespace, NAMESPACE);
        self.whole().map(|()| self.volume_claims.get(name).cloned())
    }

    fn node(&self, name: &str) -> Result<Option<Tree>, String> {
        self.whole().map(|()| self.nodes.get(name).cloned())
    }

    fn pods(&self, namespace: &str, label: &str, value: &str) -> Result<Vec<Tree>, String> {
        assert_eq!(namespace, NAMESPACE);
        let fits = |pod: &&Tree| meta::label(pod, label) == Some(value);
        self.whole().map(|()| self.pods.iter().filter(fits).cloned().collect())
    }
}

/// A question about an object.
pub fn asked<'a>(object: &'a Tree, old: Option<&'a Tree>, live: &'a Nothing) -> Asked<'a> {
    Asked { namespace: &NAMESPACE, object, old, live, settings: &live.settings }
}
