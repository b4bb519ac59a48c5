#!/bin/sh
# What grows is one file and one row: nothing outside the table asks for a scheme, an accountant or a family by its name. Prints TAP.
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -u
number=0

# only PATTERN WHERE NAME: no line of lib, api and server matches but in the files that WHERE matches.
only() {
    number=$((number + 1))
    found=$(grep -rnE --include='*.[ch]' "$1" lib api server | grep -vE "^($2):")
    if [ -z "$found" ] && grep -rqE --include='*.[ch]' "$1" lib; then
        echo "ok $number - $3"
    else
        echo "not ok $number - $3"
        echo "$found" | sed 's/^/# /'
    fi
}

echo "1..4"
# The header names them, names.c spells them, the codec says which members go with which.
only 'EPS_SCHEME_(NONE|[A-Z_]*POISSON|BALLS|B_MIN)' 'lib/epsilon\.h|lib/names\.c|lib/sampling/[a-z_]*\.c|api/codec_fields\.c' \
    "schemes are named in their own files alone"
# `auto` is no accountant but the choice among them.
only 'EPS_ACCOUNTANT_(GAUSSIAN|PLD|MMCC|RENYI|COND|MONTE)' 'lib/epsilon\.h|lib/names\.c|lib/accountants/[a-z_]*\.c|api/codec_fields\.c' \
    "accountants are named in their own files alone"
# A drawing asks for the strategy that its mechanism was stored with.
only 'EPS_FAMILY_(IDENTITY|TOEPLITZ|DENSE|[A-Z_]*SQUARE_ROOT|BANDED|BLT|OPTIMAL|TREE|FOURIER|STORED)' \
    'lib/epsilon\.h|lib/strategy/families/[a-z_]*\.c|api/codec_fields\.c|server/routes/drawing\.c' \
    "families are named in their own files alone"
# What sets the kinds of strategies apart is in their rows.
number=$((number + 1))
if grep -rnE --include='*.c' 'kind [!=]= ' lib/strategy; then
    echo "not ok $number - nothing in lib/strategy asks which kind it has"
else
    echo "ok $number - nothing in lib/strategy asks which kind it has"
fi
