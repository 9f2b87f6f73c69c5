//! Kinds that are asked, not stored: reviews of access and of tokens.
//!
//! Everybody who is known may do everything in this tier; HTTP has refused the unknown.

use muster_schema::object::Managed;
use muster_tree::{Text, Tree, tree};

use super::prepare::Ask;
use crate::request::{Shown, User, WriteAct, WriteReply};
use crate::status::Status;

/// Who issues and judges tokens.
pub trait Tokens: Send + Sync {
    /// Who a token stands for, if it is good for one of the audiences (none given: for the server's own).
    fn judge(&self, token: &str, audiences: &[Text]) -> Option<User>;

    /// The audience of a token whose request names none: the server itself.
    fn audience(&self) -> &str;

    /// A token for a service account, as the `status` of a `TokenRequest`.
    ///
    /// # Errors
    /// A refusal, e.g. of an unknown audience.
    fn issue(&self, account: &Account<'_>, spec: &Tree) -> Result<Tree, Status>;
}

/// A service account that a token is for.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

impl Ask<'_> {
    /// The answer, if this is a review.
    pub fn review(&self) -> Result<Option<WriteReply>, Status> {
        let WriteAct::Create(body) = &self.request.act else {
            return Ok(None);
        };
        let resource = &self.place.resource;
        let status: fn(&Ask<'_>, &Tree) -> Tree = match (resource.group.as_str(), resource.plural.as_str()) {
            (
                "authorization.k8s.io",
                "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews",
            ) => |_, _| tree!({"allowed": true}),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => |_, _| all_rules(),
            ("authentication.k8s.io", "selfsubjectreviews") => {
                |ask, _| tree!({"userInfo": user_tree(&ask.request.user)})
            }
            ("authentication.k8s.io", "tokenreviews") => |ask, tree| ask.token_status(tree),
            _ => return Ok(None),
        };
        let decoded = self.decoded(body)?;
        let status = status(self, &decoded.tree);
        let owned = self.owned(None, &decoded.tree, None);
        let owned = Tree::list(owned.iter().map(Managed::to_tree));
        let tree = decoded.tree.with(&["metadata", "managedFields"], owned);
        let shown = Shown::Tree(tree.with_key("status", status));
        Ok(Some(WriteReply { code: 201, shown, warnings: decoded.warnings }))
    }

    fn token_status(&self, review: &Tree) -> Tree {
        let audiences: Vec<Text> =
            review.items_at(&["spec", "audiences"]).iter().filter_map(Tree::as_text).cloned().collect();
        let token = review.str_at(&["spec", "token"]);
        match self.engine.inner.tokens.get().and_then(|tokens| tokens.judge(token, &audiences)) {
            Some(user) => {
                let status = tree!({"authenticated": true, "user": user_tree(&user)});
                if audiences.is_empty() {
                    status
                } else {
                    status.with_key("audiences", Tree::list(audiences))
                }
            }
            None => tree!({"authenticated": false, "error": "the token is not known here"}),
        }
    }
}

fn all_rules() -> Tree {
    tree!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    })
}

fn user_tree(user: &User) -> Tree {
    let mut tree = tree!({"username": &user.name, "groups": user.groups.clone()});
    if !user.uid.is_empty() {
        tree = tree.with_key("uid", Tree::from(&user.uid));
    }
    tree
}
