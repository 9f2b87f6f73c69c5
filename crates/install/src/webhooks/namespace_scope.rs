//! Webhooks for workloads without queue labels: in namespaces with a default queue, or where workloads without a queue
//! name are managed, every new workload is matched; in other namespaces none.
//!
//! They are registered only while there is such a namespace; the leader maintains them.

use std::collections::BTreeSet;

use muster_tree::{Text, Tree, tree};

use super::match_conditions::IS_NOT_QUEUED;
use super::{CONFIGURATIONS, NAMESPACE_NAME_LABEL, WebhookConfiguration};

/// Their names, each with its sibling: the webhook for workloads with queue labels.
pub const HOOKS: [(&str, &str); 4] = [
    ("mjob.muster.dev", "mjob.kb.io"),
    ("mjobset.muster.dev", "mjobset.kb.io"),
    ("mtrainjob.muster.dev", "mtrainjob.kb.io"),
    ("mpod.muster.dev", "mpod.kb.io"),
];

/// The namespaces in which workloads without a queue name are managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceScope {
    Named(BTreeSet<Text>),
    /// All namespaces in which workloads with a queue name are.
    All,
}

/// The configuration that contains them.
#[must_use]
pub fn configuration() -> &'static WebhookConfiguration {
    &CONFIGURATIONS[0]
}

/// Whether a webhook of this name is one of them.
#[must_use]
pub fn is_scoped(name: &str) -> bool {
    HOOKS.iter().any(|(own, _)| *own == name)
}

/// The desired webhooks of that configuration; `None` if they are up to date. Each has the client config of its sibling.
#[must_use]
pub fn scoped_webhooks(configuration: &Tree, spaces: &NamespaceScope) -> Option<Tree> {
    let there = configuration.items_at(&["webhooks"]);
    let named = |name: &str| there.iter().find(|it| it.str_at(&["name"]) == name);
    let made = HOOKS.iter().filter_map(|(name, sibling)| hook(name, named(sibling)?, spaces));
    let others = there.iter().filter(|it| !is_scoped(it.str_at(&["name"]))).cloned();
    let all: Vec<Tree> = others.chain(made).collect();
    (all != there).then(|| Tree::list(all))
}

fn hook(name: &str, sibling: &Tree, spaces: &NamespaceScope) -> Option<Tree> {
    let hook = sibling.with(&["name"], name).with(&["matchConditions"], tree!([(IS_NOT_QUEUED.tree())]));
    match spaces {
        NamespaceScope::All => Some(hook),
        NamespaceScope::Named(names) if names.is_empty() => None,
        NamespaceScope::Named(names) => {
            let names = Tree::list(names.iter().cloned());
            let these = tree!({"key": NAMESPACE_NAME_LABEL, "operator": "In", "values": names});
            Some(hook.with(&["namespaceSelector"], tree!({"matchExpressions": [these]})))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::WebhookClientConfig;
    use super::*;

    fn named(names: &[&str]) -> NamespaceScope {
        NamespaceScope::Named(names.iter().copied().map(Text::from).collect())
    }

    fn names(hooks: &Tree) -> Vec<&str> {
        hooks.items().iter().map(|it| it.str_at(&["name"])).filter(|name| is_scoped(name)).collect()
    }

    #[test]
    fn they_are_there_for_as_long_as_there_is_a_namespace_for_them() {
        let url = WebhookClientConfig::Url { base: "https://127.0.0.1:1", authority: "a" };
        let bare = configuration().object(configuration().hooks(&url, "own"));
        assert_eq!(scoped_webhooks(&bare, &named(&[])), None, "nothing to do");
        let made = scoped_webhooks(&bare, &named(&["b", "a"])).unwrap();
        assert_eq!(
            names(&made),
            ["mjob.muster.dev", "mjobset.muster.dev", "mtrainjob.muster.dev", "mpod.muster.dev"]
        );
        for hook in made.items().iter().filter(|it| is_scoped(it.str_at(&["name"]))) {
            let spaces = &hook.items_at(&["namespaceSelector", "matchExpressions"])[0];
            assert_eq!(spaces.items_at(&["values"]), [Tree::from("a"), Tree::from("b")]);
            assert_eq!(hook.str_at(&["clientConfig", "caBundle"]), "a", "asked where its sibling is");
            assert_eq!(hook.items_at(&["rules"])[0].items_at(&["operations"]), [Tree::from("CREATE")]);
        }
        let there = bare.with(&["webhooks"], made);
        assert_eq!(scoped_webhooks(&there, &named(&["a", "b"])), None, "once is enough");
        assert_eq!(
            scoped_webhooks(&there, &named(&[])).as_ref(),
            bare.get("webhooks"),
            "nobody is left to ask about"
        );
        let all = scoped_webhooks(&there, &NamespaceScope::All).unwrap();
        let pods = all.items().iter().find(|it| it.str_at(&["name"]) == "mpod.muster.dev").unwrap();
        let spaces = &pods.items_at(&["namespaceSelector", "matchExpressions"])[0];
        assert_eq!(spaces.items_at(&["values"]), [Tree::from("kube-system"), Tree::from("own")]);
    }
}
