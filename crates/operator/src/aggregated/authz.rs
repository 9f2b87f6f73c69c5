//! Authorizes requests to the visibility API by SubjectAccessReviews.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::client::{ApiRequest, Preconditions, RequestTarget as On, RequestVerb, Subresource};
use muster_api::queue::consts::GROUP;
use muster_apiserver::request::{ResourcePath, UserInfo};
use muster_apiserver::status::{Status, StatusObject};
use muster_cluster::KubeApi;
use muster_tree::{Text, Tree, literal, tree};

use crate::visibility::{NamespaceAuthorizer, VisibleNamespacesFuture};
use crate::webhooks::SUBJECT_ACCESS_REVIEWS;

/// Deadline of one SubjectAccessReview.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// Namespaces that are reviewed one by one; objects in further ones stay hidden.
const NAMESPACES_MAX: usize = 16;

#[derive(Clone)]
pub struct SubjectAccessReviewer(KubeApi);

impl SubjectAccessReviewer {
    /// Sends the reviews over this connection, past its circuit breaker: a request of a user must get an answer, not wait.
    pub fn new(api: &KubeApi) -> SubjectAccessReviewer {
        SubjectAccessReviewer(api.without_circuit_breaker())
    }

    /// Checks that the user may do this.
    ///
    /// # Errors
    /// 403 when the user may not; 500 when the review fails.
    pub async fn authorize(&self, user: &UserInfo, target: &ResourcePath, verb: &str) -> Result<(), Status> {
        if self.is_allowed(user, resource_attributes(target, verb)).await? {
            return Ok(());
        }
        let ResourcePath { group, resource, name, .. } = target;
        Err(Status::forbidden(StatusObject { group, resource, name }, &denial_message(user, target, verb)))
    }

    async fn is_allowed(&self, user: &UserInfo, wanted: Tree) -> Result<bool, Status> {
        let (kind, none) = (SUBJECT_ACCESS_REVIEWS.clone(), Text::new());
        let on = On { kind, namespace: none.clone(), name: none, subresource: Subresource::Main };
        let act = RequestVerb::Create(access_review(user, wanted));
        let call = ApiRequest {
            field_manager: literal!("muster"),
            target: on,
            preconditions: Preconditions::default(),
            verb: act,
        };
        let late = |_| Err(format!("the API server did not answer within {REVIEW_TIMEOUT:?}"));
        let said = async { self.0.perform(&call).await.map_err(|refusal| refusal.message()) };
        let said = tokio::time::timeout(REVIEW_TIMEOUT, said).await.unwrap_or_else(late);
        let said =
            said.map_err(|why| Status::internal(format!("SubjectAccessReview of {:?}: {why}", user.name)))?;
        Ok(said.tree.bool_at(&["status", "allowed"]) == Some(true))
    }
}

impl NamespaceAuthorizer for SubjectAccessReviewer {
    fn visible_namespaces(&self, user: UserInfo, namespaces: BTreeSet<Text>) -> VisibleNamespacesFuture {
        let may = self.clone();
        Box::pin(async move {
            if may.is_allowed(&user, list_workloads("")).await? {
                return Ok(namespaces);
            }
            let mut seen = BTreeSet::new();
            for namespace in namespaces.into_iter().take(NAMESPACES_MAX) {
                if may.is_allowed(&user, list_workloads(&namespace)).await? {
                    seen.insert(namespace);
                }
            }
            Ok(seen)
        })
    }
}

/// Resource attributes for listing the Workloads of a namespace; of all namespaces, when it is empty.
fn list_workloads(namespace: &str) -> Tree {
    tree!({"verb": "list", "group": GROUP, "resource": "workloads", "namespace": namespace})
}

fn resource_attributes(target: &ResourcePath, verb: &str) -> Tree {
    let ResourcePath { group, version, resource, namespace, name, subresource } = target;
    tree!({"verb": verb, "group": group, "version": version, "resource": resource, "subresource": subresource,
        "namespace": namespace, "name": name})
}

fn access_review(user: &UserInfo, wanted: Tree) -> Tree {
    let list = |all: &[Text]| Tree::list(all.iter().cloned());
    let extra = Tree::map(user.extra.iter().map(|(key, values)| (key.clone(), list(values))));
    let spec = tree!({"user": &user.name, "uid": &user.uid, "groups": list(&user.groups), "extra": extra,
        "resourceAttributes": wanted});
    tree!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

/// The message of kube-apiserver's RBAC authorizer.
fn denial_message(user: &UserInfo, target: &ResourcePath, verb: &str) -> String {
    let part = if target.subresource.is_empty() { String::new() } else { format!("/{}", target.subresource) };
    let place = match target.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let (name, resource, group) = (&user.name, &target.resource, &target.group);
    format!("User {name:?} cannot {verb} resource \"{resource}{part}\" in API group {group:?} {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(namespace: &str) -> ResourcePath {
        ResourcePath {
            group: "visibility.kueue.x-k8s.io".into(),
            version: "v1beta2".into(),
            resource: if namespace.is_empty() { "clusterqueues".into() } else { "localqueues".into() },
            namespace: namespace.into(),
            name: "q".into(),
            subresource: "pendingworkloads".into(),
        }
    }

    #[test]
    fn the_review_carries_all_user_fields() {
        let extra = [("k".into(), vec!["v".into()])].into();
        let ann = UserInfo { name: "ann".into(), uid: "7".into(), groups: vec!["g".into()], extra };
        let want = tree!({"user": "ann", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]},
            "resourceAttributes": {"verb": "get", "group": "visibility.kueue.x-k8s.io", "version": "v1beta2",
                "resource": "localqueues", "subresource": "pendingworkloads", "namespace": "n", "name": "q"}});
        assert_eq!(access_review(&ann, resource_attributes(&target("n"), "get")).get("spec"), Some(&want));
    }

    #[test]
    fn denials_have_the_message_of_the_rbac_authorizer() {
        let ann = UserInfo { name: "ann".into(), ..UserInfo::default() };
        for (namespace, want) in [
            (
                "n",
                "User \"ann\" cannot get resource \"localqueues/pendingworkloads\" in API group \
                 \"visibility.kueue.x-k8s.io\" in the namespace \"n\"",
            ),
            (
                "",
                "User \"ann\" cannot get resource \"clusterqueues/pendingworkloads\" in API group \
                 \"visibility.kueue.x-k8s.io\" at the cluster scope",
            ),
        ] {
            assert_eq!(denial_message(&ann, &target(namespace), "get"), want);
        }
    }
}
