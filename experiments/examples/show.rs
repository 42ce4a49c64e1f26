//! Runs an experiment with options given as pairs of words (`show e3 threads 40 seconds 1`), without the command around it.

use millpond_experiments::published::{Choices, Experiment, Lab};
use std::sync::atomic::AtomicBool;
fn main() {
    let mut args = std::env::args().skip(1);
    let experiment = Experiment::named(&args.next().unwrap()).unwrap();
    let mut choices = Choices::default();
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        let option = experiment.options.iter().find(|o| o.name == name).unwrap();
        choices.give(option, &value).unwrap();
    }
    let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
    print!("{}", experiment.run(&mut Lab::new(&stop, Vec::new(), &mut quiet), &choices).unwrap().text());
}
