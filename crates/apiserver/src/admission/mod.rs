//! The admission chain: plugins that mutate or reject writes after decoding.
//!
//! Plugins run in registration order, built-in ones first: all mutating, then all validating calls. `hooks` registers
//! its own; `operator` serves the same logic as webhooks.

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

use crate::kinds::ObjectLister;
use crate::registry::Resource;
use crate::request::UserInfo;
use crate::status::Status;

/// The operation of an admission review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    /// A subresource that is not a change of the object, e.g. `binding`.
    Connect,
}

#[derive(Clone, Copy)]
pub struct AdmissionRequest<'a> {
    pub resource: &'a Resource,
    /// Index of the request's version in `resource.versions`.
    pub version: usize,
    pub operation: Operation,
    /// Empty for cluster-scoped resources.
    pub namespace: &'a Text,
    /// The name in the path; empty on create.
    pub name: &'a Text,
    /// Empty for the object itself.
    pub subresource: &'a Text,
    /// The object to be stored, in its storage version; `None` for deletes.
    pub object: Option<&'a Tree>,
    /// The stored object, in its storage version; `None` for creates.
    pub old: Option<&'a Tree>,
    pub user: &'a UserInfo,
    pub dry_run: bool,
    pub lister: &'a dyn ObjectLister,
    /// The instant of the write.
    pub now: Time,
}

impl AdmissionRequest<'_> {
    /// Whether the request is for this resource, subresources excluded.
    #[must_use]
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.resource.group == group && self.resource.plural == plural
    }
}

/// The decision of a plugin.
#[derive(Debug, Clone)]
pub enum AdmissionDecision {
    Allow {
        /// The mutated object; `None` when unchanged.
        changed: Option<Tree>,
        /// Texts of `Warning` headers.
        warnings: Vec<String>,
    },
    Deny(Status),
}

impl AdmissionDecision {
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { changed: None, warnings: Vec::new() }
    }

    /// Allows the request with this object.
    #[must_use]
    pub fn change(tree: Tree) -> Self {
        Self::Allow { changed: Some(tree), warnings: Vec::new() }
    }

    #[must_use]
    pub fn deny(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self::Deny(Status::new(code, reason, message))
    }
}

/// An admission plugin (kube-apiserver's `admission.Interface`).
pub trait AdmissionPlugin: Send + Sync {
    /// The name by which it can be disabled.
    fn name(&self) -> &str;

    /// The mutating phase: may change or reject the object.
    fn admit(&self, _request: &AdmissionRequest<'_>) -> AdmissionDecision {
        AdmissionDecision::allow()
    }

    /// The validating phase: sees the object after all mutations.
    fn validate(&self, _request: &AdmissionRequest<'_>) -> AdmissionDecision {
        AdmissionDecision::allow()
    }
}

/// The plugins in order.
#[derive(Clone, Default)]
pub struct AdmissionChain {
    hooks: Vec<Arc<dyn AdmissionPlugin>>,
}

impl AdmissionChain {
    /// The built-in plugins, except those in `off`.
    #[must_use]
    pub fn builtin(off: &[Text]) -> Self {
        let hooks = builtin::all().into_iter().filter(|hook| !off.iter().any(|name| name == hook.name()));
        Self { hooks: hooks.collect() }
    }

    #[must_use]
    pub fn with(&self, hook: Arc<dyn AdmissionPlugin>) -> Self {
        let mut hooks = self.hooks.clone();
        hooks.push(hook);
        Self { hooks }
    }

    /// Runs the mutating phase of all plugins.
    pub(crate) fn mutate(
        &self,
        mut tree: Tree,
        request: &AdmissionRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Tree, Status> {
        for hook in &self.hooks {
            // Each plugin sees the changes of those before it.
            let verdict = hook.admit(&AdmissionRequest { object: Some(&tree), ..*request });
            match verdict {
                AdmissionDecision::Allow { changed, warnings: more } => {
                    warnings.extend(more);
                    tree = changed.unwrap_or(tree);
                }
                AdmissionDecision::Deny(status) => return Err(status),
            }
        }
        Ok(tree)
    }

    /// Runs the validating phase of all plugins.
    pub(crate) fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        for hook in &self.hooks {
            match hook.validate(request) {
                AdmissionDecision::Allow { warnings: more, .. } => warnings.extend(more),
                AdmissionDecision::Deny(status) => return Err(status),
            }
        }
        Ok(())
    }
}
