//! Activity of each CPU, as a table.

use millpond_model::COLUMNS;
use millpond_observe::Rates;
use millpond_report::{Cell, Table};

/// The columns of `mpstat`, and a row for each CPU.
#[must_use]
pub(crate) fn mpstat(frame: &Rates) -> Table {
    let columns = COLUMNS.iter().map(|column| column.word());
    let heads: Vec<&str> = std::iter::once("CPU").chain(columns).chain(["usr", "sys", "idl"]).collect();
    let mut table = Table::of(&[], &heads);
    for cpu in &frame.cpus {
        let shares = cpu.interval.shares().without_steal();
        let rate = |rate: &Option<f64>| rate.map_or(Cell::Missing, |rate| (rate, 0).into());
        let rates = cpu.interval.rates.iter().map(rate);
        let shares = [shares.user, shares.sys, shares.idle].map(|share| Cell::from((share, 0)));
        table.row(std::iter::once(Cell::from(cpu.cpu.0)).chain(rates).chain(shares));
    }
    table
}
