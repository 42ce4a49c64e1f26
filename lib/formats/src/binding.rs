//! Lines about bindings, shared by `psrset` (with set numbers) and `pbind` (with CPU numbers).

use millpond_model::{LwpId, Pid};
use std::fmt::Display;

/// The answer to a query: `process id 204: 1`, `lwp id 204/2: not bound`.
#[must_use]
pub fn bound<T: Display>(pid: Pid, lwp: Option<LwpId>, to: Option<T>) -> String {
    format!("{}: {}", subject(pid, lwp), word(to))
}

/// A changed binding: `process id 204: was not bound, now 1`.
#[must_use]
pub fn rebound<T: Display>(pid: Pid, lwp: Option<LwpId>, from: Option<T>, to: Option<T>) -> String {
    format!("{}: was {}, now {}", subject(pid, lwp), word(from), word(to))
}

fn subject(pid: Pid, lwp: Option<LwpId>) -> String {
    match lwp {
        None => format!("process id {pid}"),
        Some(lwp) => format!("lwp id {pid}/{lwp}"),
    }
}

fn word<T: Display>(to: Option<T>) -> String {
    to.map_or_else(|| "not bound".to_owned(), |to| to.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{CpuId, PsetId};

    #[test]
    fn a_query_names_the_binding_or_says_that_there_is_none() {
        assert_eq!(bound(Pid(204), None, Some(PsetId(1))), "process id 204: 1");
        assert_eq!(bound(Pid(101), None, None::<CpuId>), "process id 101: not bound");
        assert_eq!(bound(Pid(149), Some(LwpId(1)), Some(CpuId(3))), "lwp id 149/1: 3");
        assert_eq!(bound(Pid(149), Some(LwpId(2)), None::<CpuId>), "lwp id 149/2: not bound");
    }

    #[test]
    fn a_change_shows_what_was_and_what_is() {
        let said = |from, to| rebound(Pid(204), None, from, to);
        assert_eq!(said(None, Some(CpuId(2))), "process id 204: was not bound, now 2");
        assert_eq!(said(Some(CpuId(2)), Some(CpuId(2))), "process id 204: was 2, now 2");
        assert_eq!(said(Some(CpuId(2)), None), "process id 204: was 2, now not bound");
        assert_eq!(said(None, None), "process id 204: was not bound, now not bound");
        assert_eq!(
            rebound(Pid(204), Some(LwpId(7)), None, Some(PsetId(1))),
            "lwp id 204/7: was not bound, now 1"
        );
    }
}
