#!/bin/sh
# manual.sh FDCLIENT PAGE: print PAGE with the options of `FDCLIENT --help` in the place of @OPTIONS@, for scdoc.
"$1" --help | sed -n '/^Options:/,/^Exit status/{
    s/[\\*_]/\\&/g
    /^  -/{
        s/^  //
        s/\(--[a-z-]*\) \(.*\)/\1 _\2_/
        s/\(--[a-z-]*\)\[=\(.*\)\]/\1[=_\2_]/
        s/--*[a-z][a-z-]*/*&*/g
        s/^/\n/p
    }
    s/^      -/      \\-/
    s/^      /\t/p
}' | sed -e '/^@OPTIONS@$/{r /dev/stdin' -e 'd}' "$2"
