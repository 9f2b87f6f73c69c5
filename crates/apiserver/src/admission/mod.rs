//! Admission: what may still change or refuse a write after it was decoded.
//!
//! Hooks run in the order in which they were registered, built-in steps first: all that change, then all that only
//! judge. The same hooks answer a real cluster's webhook calls.

mod builtin;
mod limit_ranger;
mod priority;
mod storage_class;
mod token_volume;
mod unsupported;

use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::{Text, Tree};

pub use builtin::BUILTIN;
pub(crate) use builtin::{GROUP_PROTECTION, QUOTA};
pub use token_volume::TokenVolume;

use crate::kinds::Look;
use crate::registry::Resource;
use crate::request::User;
use crate::status::Status;

/// What a write does to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It creates it.
    Create,
    /// It changes it.
    Update,
    /// It deletes it.
    Delete,
    /// It uses it through a subresource that is not a change of the object, such as `binding`.
    Connect,
}

/// What a hook is asked.
#[derive(Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// Place of the version the request came through.
    pub version: usize,
    /// What happens.
    pub operation: Operation,
    /// Namespace of the request; empty for cluster-scoped resources.
    pub namespace: &'a Text,
    /// Name in the path; empty on create.
    pub name: &'a Text,
    /// Subresource; empty for the object itself.
    pub subresource: &'a Text,
    /// The object as it would be, in its storage version; absent for deletes.
    pub object: Option<&'a Tree>,
    /// The object as it is, in its storage version; absent for creates.
    pub old: Option<&'a Tree>,
    /// Who asks.
    pub user: &'a User,
    /// Whether nothing will be written.
    pub dry_run: bool,
    /// Other objects.
    pub look: &'a dyn Look,
    /// When the write happens.
    pub now: Time,
}

impl AdmissionRequest<'_> {
    /// Whether this is about the objects themselves of that resource.
    #[must_use]
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.resource.group == group && self.resource.plural == plural
    }
}

/// What a hook answers.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It may go on.
    Allow {
        /// The object with changes; `None` when there are none.
        changed: Option<Tree>,
        /// What the client should hear.
        warnings: Vec<String>,
    },
    /// It is refused.
    Deny(Status),
}

impl Verdict {
    /// Nothing to say.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { changed: None, warnings: Vec::new() }
    }

    /// Goes on with this object.
    #[must_use]
    pub fn change(tree: Tree) -> Self {
        Self::Allow { changed: Some(tree), warnings: Vec::new() }
    }

    /// Refuses with a code, a reason and words.
    #[must_use]
    pub fn deny(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self::Deny(Status::new(code, reason, message))
    }
}

/// Somebody who has a say in writes.
pub trait Hook: Send + Sync {
    /// Its name, by which it can be switched off.
    fn name(&self) -> &str;

    /// May change or refuse.
    fn admit(&self, _request: &AdmissionRequest<'_>) -> Verdict {
        Verdict::allow()
    }

    /// May refuse; sees what all changes have led to.
    fn validate(&self, _request: &AdmissionRequest<'_>) -> Verdict {
        Verdict::allow()
    }
}

/// All hooks in order.
#[derive(Clone, Default)]
pub struct Chain {
    hooks: Vec<Arc<dyn Hook>>,
}

impl Chain {
    /// The built-in steps, but for those named.
    #[must_use]
    pub fn builtin(off: &[Text]) -> Self {
        let hooks = builtin::all().into_iter().filter(|hook| !off.iter().any(|name| name == hook.name()));
        Self { hooks: hooks.collect() }
    }

    /// One more at the end.
    #[must_use]
    pub fn with(&self, hook: Arc<dyn Hook>) -> Self {
        let mut hooks = self.hooks.clone();
        hooks.push(hook);
        Self { hooks }
    }

    /// The object after all changes.
    pub(crate) fn mutate(
        &self,
        mut tree: Tree,
        request: &AdmissionRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Tree, Status> {
        for hook in &self.hooks {
            let verdict = hook.admit(&AdmissionRequest { object: Some(&tree), ..*request });
            match verdict {
                Verdict::Allow { changed, warnings: more } => {
                    warnings.extend(more);
                    tree = changed.unwrap_or(tree);
                }
                Verdict::Deny(status) => return Err(status),
            }
        }
        Ok(tree)
    }

    /// Whether nobody objects.
    pub(crate) fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        for hook in &self.hooks {
            match hook.validate(request) {
                Verdict::Allow { warnings: more, .. } => warnings.extend(more),
                Verdict::Deny(status) => return Err(status),
            }
        }
        Ok(())
    }
}
