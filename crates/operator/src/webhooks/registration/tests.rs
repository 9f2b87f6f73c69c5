//! Registrations that do not come to their end leave no trace.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use muster_api::meta;

use super::*;

const BASE: &str = "https://127.0.0.1:1";
/// The configurations of JobSets.
static OURS: [&WebhookConfiguration; 2] = [&CONFIGURATIONS[4], &CONFIGURATIONS[5]];

/// A server with configurations; it refuses the write of this number, or lets somebody else in before it.
#[derive(Default)]
struct Fake {
    held: RefCell<BTreeMap<Text, ApiObject>>,
    writes: Cell<u64>,
    refused: Option<u64>,
    overtaken: Option<(u64, Tree)>,
}

impl Fake {
    /// With a configuration that somebody else wrote.
    fn with(tree: &Tree) -> Fake {
        let fake = Fake::default();
        fake.put(tree, 1);
        fake
    }

    fn put(&self, tree: &Tree, revision: u64) {
        let name = meta::name(tree);
        let tree = tree.with(&["metadata", "uid"], format!("uid-{name}"));
        self.held.borrow_mut().insert(name, ApiObject { tree, revision });
    }

    fn names(&self) -> Vec<String> {
        self.held.borrow().keys().map(ToString::to_string).collect()
    }

    fn get(&self, name: &str) -> Tree {
        self.held.borrow()[name].tree.clone()
    }
}

impl RegistrationApi for Fake {
    async fn perform(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        let absent = || ApiError::NotFound("absent".to_owned());
        let name = &call.target.name;
        if call.verb == RequestVerb::Get {
            return self.held.borrow().get(name).cloned().ok_or_else(absent);
        }
        let write = self.writes.get() + 1;
        self.writes.set(write);
        if let Some((_, tree)) = self.overtaken.as_ref().filter(|(at, _)| *at == write) {
            self.put(tree, 100);
        }
        if self.refused == Some(write) {
            return Err(ApiError::Forbidden("not you".to_owned()));
        }
        let there = self.held.borrow().get(name).cloned();
        if let RequestVerb::Create(tree) = &call.verb {
            let made = call.create_body(tree);
            return match there {
                Some(_) => Err(ApiError::AlreadyExists("there".to_owned())),
                None => {
                    self.put(&made, 1);
                    Ok(self.held.borrow()[name].clone())
                }
            };
        }
        let there = there.ok_or_else(absent)?;
        call.check_preconditions(&there)?;
        match &call.verb {
            RequestVerb::Delete { .. } => self.held.borrow_mut().remove(name).ok_or_else(absent),
            RequestVerb::MergePatch(patch) => {
                self.put(&there.tree.merge(patch), there.revision + 1);
                Ok(self.held.borrow()[name].clone())
            }
            other => panic!("nobody does {other:?} here"),
        }
    }

    async fn dry_run(&self, _: &ApiRequest) -> Result<ApiObject, ApiError> {
        Err(ApiError::Indeterminate("failed calling webhook".to_owned()))
    }
}

/// What an upstream installation leaves, with cert-manager at its side.
fn foreign() -> Tree {
    let notes = Tree::map([("cert-manager.io/inject-ca-from", "a/b"), ("kept", "yes")]);
    let service = tree!({"service": {"name": "jobset-webhook-service", "namespace": "jobset-system"}});
    let hook = |name: &str| tree!({"name": name, "clientConfig": service.clone()});
    tree!({"metadata": {"name": OURS[0].name, "annotations": notes},
        "webhooks": [(hook("mjobset.kb.io")), (hook("theirs"))]})
}

async fn run(fake: &Fake, heard: bool, quit: impl Future<Output = u8>) -> Result<ControlFlow<u8>, String> {
    let registration = Registration::new(fake, "muster-system", BASE, "authority", &[AdmissionStep::JobSets]);
    registration.run(Some(&|| heard), quit).await.map_err(|error| error.to_string())
}

fn never() -> impl Future<Output = u8> {
    std::future::pending()
}

#[tokio::test]
async fn hooks_that_are_heard_stay() {
    let fake = Fake::default();
    assert_eq!(run(&fake, true, never()).await, Ok(ControlFlow::Continue(())));
    assert_eq!(fake.names(), [OURS[0].name, OURS[1].name]);
}

#[tokio::test]
async fn a_registration_that_is_refused_half_way_is_taken_back() {
    let fake = Fake { refused: Some(2), ..Fake::default() };
    let wrong = run(&fake, true, never()).await.unwrap_err();
    assert!(wrong.contains("jobset-validating-webhook-configuration cannot be written"), "{wrong}");
    assert!(fake.names().is_empty(), "{:?}", fake.names());
}

#[tokio::test]
async fn who_is_told_to_stop_before_he_is_heard_takes_back_what_he_wrote() {
    let fake = Fake::default();
    assert_eq!(run(&fake, false, async { 7 }).await, Ok(ControlFlow::Break(7)), "between the writes");
    assert_eq!((fake.names().len(), fake.writes.get()), (0, 2), "one made, one taken back");
    let fake = Fake::default();
    let later = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        8
    };
    assert_eq!(run(&fake, false, later).await, Ok(ControlFlow::Break(8)), "while it waits to be heard");
    assert_eq!((fake.names().len(), fake.writes.get()), (0, 4));
}

#[tokio::test]
async fn hooks_of_another_controller_are_replaced_as_a_whole() {
    let fake = Fake::with(&foreign());
    assert!(run(&fake, true, never()).await.unwrap().is_continue());
    let now = fake.get(OURS[0].name);
    let authority = BASE64_STANDARD.encode("authority");
    let ours =
        OURS[0].hooks(&WebhookClientConfig::Url { base: BASE, authority: &authority }, "muster-system");
    assert_eq!(now.get("webhooks"), Some(&ours));
    assert_eq!(meta::annotation(&now, "cert-manager.io/inject-ca-from"), None, "the authority stays ours");
    assert_eq!(meta::annotation(&now, "kept"), Some("yes"));
}

#[tokio::test]
async fn what_was_there_before_is_there_again() {
    let fake = Fake { refused: Some(2), ..Fake::with(&foreign()) };
    let before = fake.get(OURS[0].name);
    run(&fake, true, never()).await.unwrap_err();
    assert_eq!(fake.get(OURS[0].name), before);
}

#[tokio::test]
async fn who_comes_before_us_is_written_over_once_more() {
    let fake = Fake { overtaken: Some((1, foreign())), ..Fake::default() };
    assert_eq!(run(&fake, true, never()).await, Ok(ControlFlow::Continue(())));
    assert_eq!(fake.get(OURS[0].name).items_at(&["webhooks"]).len(), 2);
    assert_eq!(fake.writes.get(), 3, "a create, a change in its place, and the other configuration");
}

#[tokio::test]
async fn what_another_has_written_since_is_left_alone() {
    // The third write would take back the first.
    let fake = Fake { refused: Some(2), overtaken: Some((2, foreign())), ..Fake::default() };
    run(&fake, true, never()).await.unwrap_err();
    assert_eq!(fake.names(), [OURS[0].name], "not ours any more when we look");
    let fake = Fake { refused: Some(2), overtaken: Some((3, foreign())), ..Fake::default() };
    run(&fake, true, never()).await.unwrap_err();
    assert_eq!(fake.names(), [OURS[0].name], "nor when we write");
}
