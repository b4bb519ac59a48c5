/*
 * Names that other libraries and papers use for our members and values, and the edit distance of two words. A row is
 * used only if its name is one of the known names of the caller, so a row does not state where its name is allowed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/meant.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

enum { WORD = 40 }; /* the letters and digits of a name that are compared, and NUL */

/* Compared without case and underscores. If a word has several rows, the first one whose name is known counts. */
static const struct {
    const char *theirs, *ours;
} foreign[] = {
    {"steps", "n"},
    {"numsteps", "n"},
    {"nsteps", "n"},
    {"iterations", "n"},
    {"rounds", "n"},
    {"numepochs", "epochs"},
    {"samplerate", "p"},
    {"samplingrate", "p"},
    {"samplingprobability", "p"},
    {"samplingprob", "p"},
    {"probability", "p"},
    {"prob", "p"},
    {"rate", "p"},
    {"q", "p"},
    {"batch", "batch_size"},
    {"lotsize", "batch_size"},
    {"expectedbatchsize", "batch_size"},
    {"samplesize", "dataset_size"},
    {"dataset", "dataset_size"},
    {"examples", "dataset_size"},
    {"numexamples", "dataset_size"},
    {"numsamples", "dataset_size"},
    {"populationsize", "dataset_size"},
    {"truncatedbatchsize", "max_batch_size"},
    {"sigma", "noise_multiplier"},
    {"noise", "noise_multiplier"},
    {"noisemult", "noise_multiplier"},
    {"noisescale", "noise_multiplier"},
    {"stddev", "noise_multiplier"},
    {"eps", "epsilon"},
    {"state", "status"},
    {"targetepsilon", "epsilon"},
    {"targetdelta", "delta"},
    {"adjacencies", "adjacency"},
    {"neighbors", "adjacency"},
    {"neighboringrelation", "adjacency"},
    {"neighbouringrelation", "adjacency"},
    {"strategy", "matrix"},
    {"encoder", "matrix"},
    {"mechanism", "matrix"},
    {"sampler", "sampling"},
    {"minsep", "b_min_sep"},
    {"minsep", "separation"},
    {"minseparation", "separation"},
    {"bandwidth", "bands"},
    {"numbands", "bands"},
    {"numbins", "bins"},
    {"numbuffers", "buffers"},
    {"numgroups", "groups"},
    {"type", "scheme"},
    {"type", "family"},
    {"type", "method"},
    {"name", "scheme"},
    {"name", "family"},
    {"name", "method"},
    {"rdp", "renyi"},
    {"moments", "renyi"},
    {"momentsaccountant", "renyi"},
    {"prv", "pld"},
    {"privacylossdistribution", "pld"},
    {"connectdots", "pld"},
    {"gdp", "gaussian"},
    {"zcdp", "gaussian"},
    {"analyticgaussian", "gaussian"},
    {"mc", "monte_carlo"},
    {"bandmf", "banded"},
    {"bandedtoeplitz", "banded"},
    {"bandinvmf", "banded_inverse"},
    {"bsr", "square_root"},
    {"sqrt", "square_root"},
    {"bisr", "inverse_square_root"},
    {"bufferedlineartoeplitz", "blt"},
    {"memf", "optimal"},
    {"dense", "optimal"},
    {"dpsgd", "identity"},
    {"sgd", "identity"},
    {"dpftrl", "tree"},
    {"binarytree", "tree"},
    {"treeaggregation", "tree"},
    {"fft", "fourier"},
    {"bernoulli", "poisson"},
    {"subsampled", "poisson"},
    {"poissonsampling", "poisson"},
    {"cyclic", "cyclic_poisson"},
    {"randomallocation", "balls_in_bins"},
    {"bnb", "balls_in_bins"},
    {"addorremove", "add_remove"},
    {"addorremoveone", "add_remove"},
    {"addremoveone", "add_remove"},
    {"substitute", "replace_one"},
    {"substitution", "replace_one"},
    {"replace", "replace_one"},
    {"replacespecial", "zero_out"},
    {"zero", "zero_out"},
    {"prefix", "prefix_sum"},
    {"beta", "momentum"},
    {"float", "float32"},
    {"single", "float32"},
    {"f4", "float32"},
    {"double", "float64"},
    {"f8", "float64"},
    {"mse", "mean_squared"},
    {"rmse", "mean_squared"},
    {"maxse", "max_squared"},
};

/* The form of a name that is compared. Truncated if it is longer than any of ours. */
static size_t plain(char out[WORD], const char *name)
{
    size_t len = 0;
    for (; *name && len + 1 < WORD; name++)
        if (isalnum((unsigned char)*name))
            out[len++] = (char)tolower((unsigned char)*name);
    out[len] = '\0';
    return len;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The edit distance: the smallest number of insertions, deletions, replacements and swaps of neighbours. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t d[WORD][WORD];
    assert(a_len < WORD && b_len < WORD);
    for (size_t i = 0; i <= a_len; i++)
        for (size_t j = 0; j <= b_len; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[a_len][b_len];
}

static const char *called(const char *word, const char *const *known, size_t known_len)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        for (size_t k = 0; k < known_len && strcmp(foreign[i].theirs, word) == 0; k++)
            if (strcmp(known[k], foreign[i].ours) == 0)
                return known[k];
    return NULL;
}

const char *api_meant(const char *name, const char *const *known, size_t known_len)
{
    char word[WORD], other[WORD];
    size_t len = plain(word, name);
    const char *nearest = called(word, known, known_len);
    /* a word of one or two letters is near every other; a long name may have two errors */
    size_t within = len < 3 ? 0 : len < 6 ? 1 : 2;
    for (size_t k = 0; k < known_len && !nearest && len > 0; k++)
        if (plain(other, known[k]) == len && strcmp(other, word) == 0)
            nearest = known[k];
    for (size_t most = 1; most <= within && !nearest; most++)
        for (size_t k = 0; k < known_len && !nearest; k++) {
            size_t other_len = plain(other, known[k]);
            if (other_len >= 3 && distance(word, len, other, other_len) <= most)
                nearest = known[k];
        }
    return nearest;
}
