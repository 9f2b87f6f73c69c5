//! Lists: a consistent snapshot, whole or in pages.

use muster_schema::error::FieldError;
use muster_store::{Page, Range, StoredObject};
use muster_tree::Text;

use super::continue_token::ContinueToken;
use super::read::{bad_options, parse_revision};
use super::selection::ListSelection;
use super::{ApiEngine, VersionedResource};
use crate::request::{ListOptions, ListReply, ResourcePath};
use crate::status::Status;

/// Minimum number of objects read at once when a selector narrows a paged list.
const FILTERED_PAGE_MIN: usize = 500;

/// The snapshot and start of a list.
#[derive(Debug, Clone)]
struct From {
    revision: Option<u64>,
    after: Option<(Text, Text)>,
}

impl ApiEngine {
    /// # Errors
    /// 422 for contradictory options, 400 for a malformed selector or token, 410 when the requested revision is
    /// compacted, 504 when it lies in the future.
    pub fn list(&self, target: &ResourcePath, options: &ListOptions) -> Result<ListReply, Status> {
        let place = self.resolve(target)?;
        if !place.resource.allows(place.version, "list") {
            return Err(Status::method_not_allowed());
        }
        let errors = validate_options(options);
        if !errors.is_empty() {
            return Err(bad_options(&errors));
        }
        let selection = ListSelection::parse(&place, target, options)?;
        let from = self.start(options)?;
        if options.resource_version == "0" {
            // `resourceVersion=0` ignores `limit`, as a read from kube-apiserver's watch cache does.
            return self.collect(&place, &selection, &from, &ListOptions { limit: 0, ..options.clone() });
        }
        self.collect(&place, &selection, &from, options)
    }

    fn start(&self, options: &ListOptions) -> Result<From, Status> {
        let wanted = parse_revision(&options.resource_version)
            .map_err(|e| Status::bad_request(format!("invalid resource version: {e}")))?;
        if !options.continue_token.is_empty() {
            if wanted.is_some_and(|n| n != 0) {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let token = ContinueToken::decode(&options.continue_token)?;
            return Ok(From { revision: token.revision, after: Some(token.after) });
        }
        let Some(wanted) = wanted.filter(|n| *n != 0) else {
            return Ok(From { revision: None, after: None });
        };
        self.reached(wanted)?;
        // Legacy semantics: a resourceVersion with `limit` means Exact, without it NotOlderThan.
        let exact = match options.resource_version_match.as_str() {
            "Exact" => true,
            "" => options.limit > 0,
            _ => false,
        };
        Ok(From { revision: exact.then_some(wanted), after: None })
    }

    fn collect(
        &self,
        place: &VersionedResource,
        selection: &ListSelection,
        from: &From,
        options: &ListOptions,
    ) -> Result<ListReply, Status> {
        if let (Some(name), None) = (selection.name(), &from.after)
            && let Some(reply) = self.single(place, selection, &name, from)
        {
            return Ok(reply);
        }
        let mut range = Range {
            namespace: selection.namespace(),
            after: from.after.clone(),
            revision: from.revision,
            ..Range::default()
        };
        let mut found: Vec<StoredObject> = Vec::new();
        loop {
            // With a selector more objects are read than returned, so the page size is raised.
            range.limit = page_size(options.limit, selection.is_filtered());
            let page = self.page(place, &range, options)?;
            let (revision, remaining) = (page.revision, page.remaining);
            let last = page.objects.last().map(key_of);
            for (at, object) in page.objects.iter().enumerate() {
                if !selection.matches(object) {
                    continue;
                }
                found.push(object.clone());
                if options.limit > 0 && found.len() == options.limit {
                    let left = remaining + page.objects.len() - at - 1;
                    return Ok(reply(found, revision, left, selection));
                }
            }
            if remaining == 0 {
                return Ok(reply(found, revision, 0, selection));
            }
            // Later pages must read the snapshot of the first.
            range.revision = from.revision.or(Some(revision)).filter(|_| !is_loose(options, from));
            range.after = last;
        }
    }

    fn page(&self, place: &VersionedResource, range: &Range, options: &ListOptions) -> Result<Page, Status> {
        let page = self.inner.store.list(&place.resource.storage, range);
        page.map_err(|_| {
            if options.continue_token.is_empty() {
                return Status::new(410, "Expired", "The resourceVersion for the provided list is too old.");
            }
            let mut status = Status::new(410, "Expired", CONTINUE_EXPIRED);
            if let Some(after) = &range.after {
                status.details.continue_token =
                    ContinueToken { revision: None, after: after.clone() }.encode().to_string();
            }
            status
        })
    }

    /// A list that selects one name is a lookup by key.
    fn single(
        &self,
        place: &VersionedResource,
        selection: &ListSelection,
        name: &Text,
        from: &From,
    ) -> Option<ListReply> {
        if from.revision.is_some() {
            return None;
        }
        let namespace = match selection.namespace() {
            Some(namespace) => namespace,
            None if place.resource.namespaced => return None,
            None => Text::new(),
        };
        // Read the revision first: the object is then at least as new, and a watch from this revision misses nothing.
        let revision = self.inner.store.revision();
        let object = self.inner.store.get(&place.resource.key(&namespace, name));
        let newer = object.as_ref().is_some_and(|o| o.revision > revision);
        if newer || self.inner.store.revision() != revision {
            return None;
        }
        let objects: Vec<StoredObject> = object.into_iter().filter(|o| selection.matches(o)).collect();
        Some(ListReply { objects, revision, continue_token: Text::new(), remaining: None })
    }
}

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

fn is_loose(options: &ListOptions, from: &From) -> bool {
    !options.continue_token.is_empty() && from.revision.is_none()
}

fn page_size(limit: usize, filtered: bool) -> Option<usize> {
    match limit {
        0 => None,
        _ if filtered => Some(limit.max(FILTERED_PAGE_MIN)),
        n => Some(n),
    }
}

fn key_of(object: &StoredObject) -> (Text, Text) {
    (object.tree.text_at(&["metadata", "namespace"]), object.tree.text_at(&["metadata", "name"]))
}

fn reply(objects: Vec<StoredObject>, revision: u64, left: usize, selection: &ListSelection) -> ListReply {
    let continue_token = match objects.last() {
        Some(last) if left > 0 => ContinueToken { revision: Some(revision), after: key_of(last) }.encode(),
        _ => Text::new(),
    };
    let remaining = (left > 0 && !selection.is_filtered()).then_some(left);
    ListReply { objects, revision, continue_token, remaining }
}

fn validate_options(options: &ListOptions) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rule = options.resource_version_match.as_str();
    let version = options.resource_version.as_str();
    if !rule.is_empty() {
        if version.is_empty() {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !options.continue_token.is_empty() {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(rule, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(
                "resourceVersionMatch",
                rule,
                ["Exact", "NotOlderThan", ""],
            ));
        }
        if rule == "Exact" && version == "0" {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if options.send_initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    errors
}
