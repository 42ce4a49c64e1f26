//! Leader election: of several controllers, the one that holds a Lease writes.
//!
//! The rule is that of the Kubernetes clients. The holder renews the lease. Another instance takes it over if it has
//! not changed for the duration that it states. Each instance measures that with its own clock, so that clocks need
//! not agree. Each writes with the version that it has read, so the API server refuses the second of two writes.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use std::time::{Duration, Instant};

/// The time without a renewal after which another instance takes over.
const DURATION: Duration = Duration::from_secs(15);
/// The time without a renewal after which the holder stops writing. It is shorter, so that the holder stops before
/// another instance starts.
const DEADLINE: Duration = Duration::from_secs(10);
/// The interval of renewals and checks.
pub(crate) const EVERY: Duration = Duration::from_secs(4);

/// What this instance knows of the lease.
pub(crate) struct Holding {
    api: Api<Lease>,
    name: String,
    seen: Seen,
    /// The time since which this instance surely holds the lease.
    held: Option<Instant>,
}

/// The observed state of the lease.
struct Seen {
    /// The identity of this instance.
    me: String,
    /// The last observed version, and since when it is known.
    last: Option<(String, Instant)>,
}

/// The next action on the lease.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Renew,
    TakeOver,
    Wait,
}

impl Holding {
    pub(crate) fn new(api: Api<Lease>, name: &str, me: String) -> Holding {
        Holding { api, name: name.to_owned(), seen: Seen { me, last: None }, held: None }
    }

    /// Whether this instance may write now.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some_and(|since| since.elapsed() < DEADLINE)
    }

    /// Renews the lease, takes it over, or checks it.
    pub(crate) async fn turn(&mut self) -> kube::Result<()> {
        let began = Instant::now();
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            let spec = self.seen.spec(None);
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            return self.written(began, Lease { metadata, spec: Some(spec) }, true).await;
        };
        match self.seen.step(&lease, began) {
            Step::Wait => {
                self.held = None;
                Ok(())
            }
            Step::Renew | Step::TakeOver => {
                lease.spec = Some(self.seen.spec(lease.spec.as_ref()));
                self.written(began, lease, false).await
            }
        }
    }

    /// Releases the lease, so that other instances need not wait.
    pub(crate) async fn release(&mut self) {
        if !self.is_held() {
            return;
        }
        self.held = None;
        if let Ok(Some(mut lease)) = self.api.get_opt(&self.name).await
            && holder(&lease) == Some(&self.seen.me)
            && let Some(spec) = lease.spec.as_mut()
        {
            spec.holder_identity = None;
            // If it cannot be released, it expires.
            drop(self.api.replace(&self.name, &PostParams::default(), &lease).await);
        }
    }

    async fn written(&mut self, began: Instant, lease: Lease, is_new: bool) -> kube::Result<()> {
        let with = PostParams::default();
        let written = if is_new {
            self.api.create(&with, &lease).await
        } else {
            self.api.replace(&self.name, &with, &lease).await
        };
        match written {
            Ok(_) => {
                self.held = Some(began);
                Ok(())
            }
            // Another instance was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.held = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Seen {
    fn step(&mut self, lease: &Lease, now: Instant) -> Step {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let since = match &self.last {
            Some((seen, since)) if *seen == version => *since,
            _ => now,
        };
        self.last = Some((version, since));
        match holder(lease) {
            Some(holder) if *holder == self.me => Step::Renew,
            None => Step::TakeOver,
            Some(_) => {
                let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
                let patience =
                    seconds.and_then(|s| u64::try_from(s).ok()).map_or(DURATION, Duration::from_secs);
                if now.duration_since(since) >= patience { Step::TakeOver } else { Step::Wait }
            }
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let mut spec = before.cloned().unwrap_or_default();
        if spec.holder_identity.as_ref() != Some(&self.me) {
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |n| n.saturating_add(1)));
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.me.clone());
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
        spec.renew_time = Some(now);
        spec
    }
}

fn holder(lease: &Lease) -> Option<&String> {
    let spec = lease.spec.as_ref()?;
    spec.holder_identity.as_ref().filter(|holder| !holder.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(me: &str) -> Seen {
        Seen { me: me.to_owned(), last: None }
    }

    fn lease(holder: Option<&str>, version: &str) -> Lease {
        let spec = LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta { resource_version: Some(version.to_owned()), ..ObjectMeta::default() };
        Lease { metadata, spec: Some(spec) }
    }

    #[test]
    fn another_one_waits_as_long_as_the_lease_changes() {
        let mut other = seen("b");
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(other.step(&lease(Some("a"), "1"), start), Step::Wait);
        assert_eq!(other.step(&lease(Some("a"), "1"), after(14)), Step::Wait);
        assert_eq!(other.step(&lease(Some("a"), "2"), after(15)), Step::Wait);
        assert_eq!(other.step(&lease(Some("a"), "2"), after(29)), Step::Wait);
        assert_eq!(other.step(&lease(Some("a"), "2"), after(30)), Step::TakeOver);
        assert_eq!(other.step(&lease(None, "3"), after(30)), Step::TakeOver);
        assert_eq!(seen("a").step(&lease(Some("a"), "2"), start), Step::Renew);
    }

    #[test]
    fn a_new_holder_is_counted_and_a_renewal_is_not() {
        let first = seen("a").spec(None);
        assert_eq!((first.holder_identity.as_deref(), first.lease_transitions), (Some("a"), Some(0)));
        assert_eq!(seen("a").spec(Some(&first)).lease_transitions, Some(0));
        let other = seen("b").spec(Some(&first));
        assert_eq!((other.lease_transitions, other.lease_duration_seconds), (Some(1), Some(15)));
    }
}
