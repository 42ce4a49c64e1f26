# Growing strings, dropped hashes, regular expressions, and a child. The output is always the same.
use strict; use warnings;
my %seen;
for my $at (1 .. 60000) { my $key = "key" . ($at * 7919 % 10007); $seen{$key} .= chr(97 + $at % 26) x ($at % 5); }
my $long = join ",", map { "$_=$seen{$_}" } sort keys %seen;
my $count = () = $long =~ /a+b?/g;
print length($long), " $count\n";
my @lists = map { [ (1) x $_ ] } 1 .. 500;
@lists = ();
my $child = fork;
if (!$child) { my $text = "x" x 1000000; exit(length($text) == 1000000 ? 3 : 4); }
waitpid $child, 0;
print $? >> 8, "\n";
