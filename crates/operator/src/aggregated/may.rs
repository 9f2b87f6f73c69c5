//! Whether somebody may ask: the API server says.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::port::{Act, Call, Guard, Part, Target as On};
use muster_api::queue::words::GROUP;
use muster_apiserver::request::{Target, User};
use muster_apiserver::status::{Named, Status};
use muster_cluster::KubeApi;
use muster_tree::{Text, Tree, literal, tree};

use crate::visibility::{Seeing, Sight};
use crate::webhooks::WHO_MAY;

/// How long the server may take to say.
const SAID_WITHIN: Duration = Duration::from_secs(5);
/// The most namespaces that are asked about one by one; what is in others stays hidden.
const NAMESPACES_MAX: usize = 16;

/// Asks the API server.
#[derive(Clone)]
pub struct May(KubeApi);

impl May {
    /// The one of this connection.
    pub fn new(api: &KubeApi) -> May {
        May(api.unhindered())
    }

    /// Whether somebody may do this.
    ///
    /// # Errors
    /// 403; 500 when the server does not say.
    pub async fn check(&self, user: &User, target: &Target, verb: &str) -> Result<(), Status> {
        if self.says(user, wanted(target, verb)).await? {
            return Ok(());
        }
        let Target { group, resource, name, .. } = target;
        Err(Status::forbidden(Named { group, resource, name }, &refusal(user, target, verb)))
    }

    async fn says(&self, user: &User, wanted: Tree) -> Result<bool, Status> {
        let (kind, none) = (WHO_MAY.clone(), Text::new());
        let on = On { kind, namespace: none.clone(), name: none, part: Part::Main };
        let act = Act::Create(question(user, wanted));
        let call = Call { by: literal!("muster"), on, guard: Guard::default(), act };
        let late = |_| Err(format!("the API server did not answer within {SAID_WITHIN:?}"));
        let said = async { self.0.perform(&call).await.map_err(|refusal| refusal.words()) };
        let said = tokio::time::timeout(SAID_WITHIN, said).await.unwrap_or_else(late);
        let said =
            said.map_err(|why| Status::internal(format!("asking what {:?} may do: {why}", user.name)))?;
        Ok(said.tree.bool_at(&["status", "allowed"]) == Some(true))
    }
}

impl Sight for May {
    fn of(&self, user: User, namespaces: BTreeSet<Text>) -> Seeing {
        let may = self.clone();
        Box::pin(async move {
            if may.says(&user, workloads("")).await? {
                return Ok(namespaces);
            }
            let mut seen = BTreeSet::new();
            for namespace in namespaces.into_iter().take(NAMESPACES_MAX) {
                if may.says(&user, workloads(&namespace)).await? {
                    seen.insert(namespace);
                }
            }
            Ok(seen)
        })
    }
}

/// Listing the Workloads of a namespace; of all, when it is empty.
fn workloads(namespace: &str) -> Tree {
    tree!({"verb": "list", "group": GROUP, "resource": "workloads", "namespace": namespace})
}

fn wanted(target: &Target, verb: &str) -> Tree {
    let Target { group, version, resource, namespace, name, subresource } = target;
    tree!({"verb": verb, "group": group, "version": version, "resource": resource, "subresource": subresource,
        "namespace": namespace, "name": name})
}

fn question(user: &User, wanted: Tree) -> Tree {
    let list = |all: &[Text]| Tree::list(all.iter().cloned());
    let extra = Tree::map(user.extra.iter().map(|(key, values)| (key.clone(), list(values))));
    let spec = tree!({"user": &user.name, "uid": &user.uid, "groups": list(&user.groups), "extra": extra,
        "resourceAttributes": wanted});
    tree!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

/// In the words of every API server.
fn refusal(user: &User, target: &Target, verb: &str) -> String {
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

    fn target(namespace: &str) -> Target {
        Target {
            group: "visibility.kueue.x-k8s.io".into(),
            version: "v1beta2".into(),
            resource: if namespace.is_empty() { "clusterqueues".into() } else { "localqueues".into() },
            namespace: namespace.into(),
            name: "q".into(),
            subresource: "pendingworkloads".into(),
        }
    }

    #[test]
    fn the_server_is_told_all_that_is_known_of_who_asks() {
        let extra = [("k".into(), vec!["v".into()])].into();
        let ann = User { name: "ann".into(), uid: "7".into(), groups: vec!["g".into()], extra };
        let want = tree!({"user": "ann", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]},
            "resourceAttributes": {"verb": "get", "group": "visibility.kueue.x-k8s.io", "version": "v1beta2",
                "resource": "localqueues", "subresource": "pendingworkloads", "namespace": "n", "name": "q"}});
        assert_eq!(question(&ann, wanted(&target("n"), "get")).get("spec"), Some(&want));
    }

    #[test]
    fn refusals_are_in_the_words_of_every_server() {
        let ann = User { name: "ann".into(), ..User::default() };
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
            assert_eq!(refusal(&ann, &target(namespace), "get"), want);
        }
    }
}
