//! What placement looks at in a pod. Equal demands are one class.

use muster_tree::{Text, Tree};

use crate::label::Labels;
use crate::request::Request;
use crate::site::Site;
use crate::term::Company;

/// Everything of a pod that decides where it may go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Demand {
    /// What it takes of a node.
    pub request: Request,
    /// What it asks of the node itself.
    pub site: Site,
    /// What it asks of other pods.
    pub company: Company,
}

impl Demand {
    /// Reads a Pod.
    #[must_use]
    pub fn of(tree: &Tree, namespace: &Text, labels: &Labels) -> Demand {
        Demand {
            request: Request::of(tree),
            site: Site::of(tree),
            company: Company::of(tree, namespace, labels),
        }
    }
}
