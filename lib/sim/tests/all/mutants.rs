//! Machines with one defect each, and the law that finds it: proof that every law can fail.

use crate::common::SimSubject;
use crate::mutant::{Defect, Mutant};
use millpond_machine::laws::{self, Law};

/// The law must be the first one that the report names, because it leads to the cause.
fn finds(law: Law, defect: Defect) {
    let report = laws::run(|| SimSubject(Mutant::new(defect)), 2_000, 3);
    assert_eq!(report.broken().first(), Some(&law), "{defect:?}\n{report}");
}

#[test]
fn a_set_whose_processors_do_not_come_back_is_found() {
    finds(Law::DestroyReturnsProcessors, Defect::DestroyGivesProcessorsAway);
}

#[test]
fn a_thread_that_outlives_its_set_is_found() {
    finds(Law::DestroyReturnsThreads, Defect::DestroyLeaksThreads);
}

#[test]
fn a_machine_that_gives_its_last_processor_away_is_found() {
    finds(Law::DefaultSetRuns, Defect::AcceptsLastOfDefault);
}

#[test]
fn a_processor_in_two_sets_is_found() {
    finds(Law::OneSetEach, Defect::ListsAProcessorTwice);
}

#[test]
fn members_in_another_order_are_found() {
    finds(Law::OrderOfArrival, Defect::SortsMembers);
}

#[test]
fn a_number_that_is_not_the_lowest_is_found() {
    finds(Law::LowestFreeNumber, Defect::CountsOn);
}

#[test]
fn a_set_that_forgets_its_stopped_members_is_found() {
    finds(Law::StoppedKeepsItsSet, Defect::StoppingLeavesTheSet);
}

#[test]
fn a_since_time_that_stands_still_is_found() {
    finds(Law::SinceChangesWithState, Defect::SinceStandsStill);
}

#[test]
fn a_since_time_that_changes_without_a_state_is_found() {
    finds(Law::SinceChangesWithState, Defect::SinceIsAlwaysNow);
}

#[test]
fn a_child_without_its_inheritance_is_found() {
    finds(Law::ChildrenInherit, Defect::ChildrenAreFree);
}

#[test]
fn an_unbinding_that_does_nothing_is_found() {
    finds(Law::UnbindingRestores, Defect::UnbindingDoesNothing);
}

#[test]
fn an_unbinding_that_leaves_a_narrow_mask_is_found() {
    finds(Law::UnbindingRestores, Defect::UnbindingLeavesAMask);
}

#[test]
fn others_in_an_exclusive_set_are_found() {
    finds(Law::OthersStayOutside, Defect::OthersIntrude);
}

#[test]
fn a_bound_thread_outside_its_set_is_found() {
    finds(Law::BoundStayInside, Defect::BoundEscape);
}

#[test]
fn a_member_that_its_threads_cannot_use_is_found() {
    finds(Law::ReachWholeSet, Defect::LastMemberIsNotUsed);
}

#[test]
fn a_set_that_lost_its_last_active_processor_is_found() {
    finds(Law::LastOnlineStays, Defect::StopsTheLastOfASet);
}

#[test]
fn a_machine_without_a_processor_for_interrupts_is_found() {
    finds(Law::LastInterruptibleStays, Defect::SheltersTheLast);
}

#[test]
fn an_interrupt_on_a_sheltered_processor_is_found() {
    finds(Law::ShelteredFromInterrupts, Defect::InterruptsStay);
}

#[test]
fn more_idle_time_than_time_is_found() {
    finds(Law::IdleIsNoLongerThanElapsed, Defect::IdlesTooMuch);
}

#[test]
fn time_that_is_in_no_book_is_found() {
    finds(Law::BooksBalance, Defect::LosesTime);
}

#[test]
fn programs_that_run_longer_than_their_processor_are_found() {
    finds(Law::BooksBalance, Defect::RunsLongerThanItsProcessor);
}

#[test]
fn a_processor_that_no_lgroup_has_is_found() {
    finds(Law::LgroupsHoldEverything, Defect::LosesAProcessorOfANode);
}

#[test]
fn memory_from_elsewhere_is_found() {
    finds(Law::MemoryIsThere, Defect::MemoryComesFromElsewhere);
}

#[test]
fn a_set_that_forgets_where_its_memory_was_to_come_from_is_found() {
    finds(Law::DoesWhatItSays, Defect::ForgetsMemory);
}

#[test]
fn a_thread_on_a_stopped_processor_is_found() {
    finds(Law::StoppedRunsNothing, Defect::RunsWhereStopped);
}

#[test]
fn a_thread_that_runs_where_it_is_not_allowed_is_found() {
    finds(Law::RunsWhereAllowed, Defect::RunsOutside);
}

#[test]
fn an_interrupt_that_arrives_at_a_sheltered_processor_is_found() {
    finds(Law::InterruptsArrive, Defect::InterruptsArriveAnyway);
}

#[test]
fn a_class_that_a_binding_takes_away_is_found() {
    finds(Law::ClassesSurvive, Defect::BindingResetsClass);
}

#[test]
fn a_class_that_is_not_put_back_is_found() {
    finds(Law::UndoneClassReturns, Defect::UndoForgetsClasses);
}

#[test]
fn shares_that_are_not_put_back_are_found() {
    finds(Law::UnfinishedIsPutBack, Defect::UndoForgetsControls);
}

#[test]
fn shares_that_buy_nothing_are_found() {
    finds(Law::SharesAreKept, Defect::SharesBuyNothing);
}

#[test]
fn a_cap_that_does_not_hold_is_found() {
    finds(Law::CapsHold, Defect::CapsLeak);
}

#[test]
fn an_untrue_report_of_a_class_is_found() {
    finds(Law::DoesWhatItSays, Defect::ReportsAnotherClass);
}

#[test]
fn a_dispatch_table_that_stays_is_found() {
    finds(Law::DoesWhatItSays, Defect::TablesStay);
}

#[test]
fn a_process_that_is_born_without_its_inheritance_is_found() {
    finds(Law::ChildrenInherit, Defect::NewbornsAreFree);
}

#[test]
fn a_change_that_is_not_made_is_found() {
    finds(Law::DoesWhatItSays, Defect::AssignsNothing);
}

#[test]
fn a_report_that_is_not_true_is_found() {
    finds(Law::DoesWhatItSays, Defect::ReportsAnotherSet);
}

#[test]
fn a_change_that_does_more_than_it_says_is_found() {
    finds(Law::NothingElseChanges, Defect::UnbindsBystanders);
}

#[test]
fn a_refusal_without_a_reason_is_found() {
    finds(Law::RefusedForAReason, Defect::RefusesAtWhim);
}

#[test]
fn a_forbidden_change_that_is_made_is_found() {
    finds(Law::ForbiddenIsRefused, Defect::TakesNamesTwice);
}

#[test]
fn a_trace_of_a_refused_change_is_found() {
    finds(Law::RefusedChangesNothing, Defect::RefusalLeavesATrace);
}

#[test]
fn a_journal_that_forgets_what_was_begun_is_found() {
    finds(Law::UnfinishedIsPutBack, Defect::JournalForgetsTheUnfinished);
}

#[test]
fn a_journal_that_forgets_what_was_finished_is_found() {
    finds(Law::FinishedStays, Defect::JournalForgetsTheFinished);
}

#[test]
fn a_scar_that_remains_at_the_end_is_found() {
    finds(Law::TearDownRestores, Defect::DestroyingLeavesAScar);
}

#[test]
fn a_baseline_that_is_never_released_is_found() {
    finds(Law::TearDownForgets, Defect::KeepsBaselines);
}

#[test]
fn a_mutant_without_a_defect_obeys_every_law() {
    laws::run(|| SimSubject(Mutant::new(Defect::None)), 100, 3).expect_all_but(&[]);
}

#[test]
fn every_law_finds_a_defect() {
    // The tests above name each law at least once; a new law needs a defect.
    let named = include_str!("mutants.rs");
    for law in Law::ALL {
        assert!(named.contains(&format!("finds(Law::{law:?},")), "no defect for {law:?}");
    }
}

#[test]
fn a_broken_law_is_shown_by_a_short_script() {
    let report = laws::run(|| SimSubject(Mutant::new(Defect::DestroyLeaksThreads)), 400, 3);
    let failure = report.failure.as_ref().expect("it is found");
    assert!(failure.script.len() <= 4, "{report}");
    let text = report.to_string();
    for line in
        ["BROKEN: destroying a set returns its threads", ". spawn process 300", "as code: run_script("]
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
