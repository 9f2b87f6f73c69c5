//! Review APIs, which are answered and not stored: access reviews and TokenReview.
//!
//! Every authenticated user is authorized for everything; HTTP has rejected anonymous requests.

use muster_schema::object::Managed;
use muster_tree::{Text, Tree, tree};

use super::prepare::WriteContext;
use crate::request::{ReplyObject, UserInfo, WriteAct, WriteReply};
use crate::status::Status;

/// Issues and authenticates ServiceAccount tokens.
pub trait TokenIssuer: Send + Sync {
    /// Authenticates a token for one of these audiences (none: the server's own).
    fn authenticate(&self, token: &str, audiences: &[Text]) -> Option<UserInfo>;

    /// The default audience of tokens.
    fn audience(&self) -> &str;

    /// Issues a token, as the `status` of a `TokenRequest`.
    ///
    /// # Errors
    /// The request's error, e.g. an unknown bound object.
    fn issue(&self, account: &ServiceAccountRef<'_>, spec: &Tree) -> Result<Tree, Status>;
}

/// The ServiceAccount of a token.
#[derive(Debug, Clone, Copy)]
pub struct ServiceAccountRef<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl WriteContext<'_> {
    /// Answers the request if it is a review.
    pub fn review(&self) -> Result<Option<WriteReply>, Status> {
        let WriteAct::Create(body) = &self.request.act else {
            return Ok(None);
        };
        let resource = &self.place.resource;
        let status: fn(&WriteContext<'_>, &Tree) -> Tree =
            match (resource.group.as_str(), resource.plural.as_str()) {
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
        let shown = ReplyObject::Tree(tree.with_key("status", status));
        Ok(Some(WriteReply { code: 201, shown, warnings: decoded.warnings }))
    }

    fn token_status(&self, review: &Tree) -> Tree {
        let audiences: Vec<Text> =
            review.items_at(&["spec", "audiences"]).iter().filter_map(Tree::as_text).cloned().collect();
        let token = review.str_at(&["spec", "token"]);
        match self.engine.inner.tokens.get().and_then(|tokens| tokens.authenticate(token, &audiences)) {
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

fn user_tree(user: &UserInfo) -> Tree {
    let mut tree = tree!({"username": &user.name, "groups": user.groups.clone()});
    if !user.uid.is_empty() {
        tree = tree.with_key("uid", Tree::from(&user.uid));
    }
    tree
}
